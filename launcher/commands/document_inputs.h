// The texts of commands that take whole documents: texts, files, folders and patterns.
#pragma once

#include <string>
#include <vector>

namespace tandem::launcher {

struct DocumentInput {
  std::string name;      // of the file; "-": standard input; "": there is none
  std::string text;      // where there is no file
  bool is_text = false;  // it has no file
  std::string end = {};  // line ends behind the text, once it has been read
};

// What arguments mean. An existing file is itself; a folder is its files of known formats, by name;
// a pattern with * or ? is the files that match; "-" is standard input; anything with a blank in it
// is a text. Throws UsageError naming the argument: no such file, nothing in the folder, no match.
std::vector<DocumentInput> find_documents(const std::vector<std::string>& arguments);

// The text, or the whole file, without line ends behind it; these are input.end. Throws InputError
// naming the file.
std::string read_text(DocumentInput& input);

}  // namespace tandem::launcher
