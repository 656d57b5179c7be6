// Arguments of commands that mean files: a folder has those of known endings, a pattern those that
// match.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tandem::launcher {

struct KnownFiles {
  std::string argument;                              // its name in errors: "FILE"
  std::function<bool(const std::string& name)> has;  // by the ending
  std::string endings;                               // for errors: ".txt, .md"
};

// In the order of their names. Throw InputError where there is none.
std::vector<std::string> files_of_folder(const std::string& folder, const KnownFiles& known);
std::vector<std::string> files_of_pattern(const std::string& pattern, const KnownFiles& known);
bool is_pattern(const std::string& argument);
// Of the web, which commands do not read.
bool is_address(const std::string& argument);
constexpr const char* kAddress = "is an address: download the file first (curl -LO)";

// Folders and patterns as their files; everything else, "-" too, as it is.
std::vector<std::string> expand_files(const std::vector<std::string>& arguments,
                                      const KnownFiles& known);

// Those of `tandem transcribe` and `tandem read`.
KnownFiles sound_files();
KnownFiles image_files();

}  // namespace tandem::launcher
