// The documents of a command: their texts as requests, and their answers as documents again.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/commands/files/output_folder.h"
#include "text/documents/translatable_document.h"

namespace tandem::launcher {

struct DocumentInput {
  std::string name;      // of the file; "-": standard input; "": there is none
  std::string text;      // where there is no file
  bool is_text = false;  // it has no file
  std::string end = {};  // line ends behind the text, once it has been read
};

// The inputs that arguments stand for. A file is one input. A folder gives its files of known
// formats, by name. A pattern with * or ? gives the files that match. "-" is standard input. What
// has a blank in it is a text.
// Throws InputError naming the argument: no such file, nothing in the folder, no match.
std::vector<DocumentInput> find_documents(const std::vector<std::string>& arguments);

// The text, or the whole file, without line ends behind it; these are input.end. Throws InputError
// naming the file.
std::string read_text(DocumentInput& input);

struct DocumentFileOptions {
  // Of all inputs; nothing: by each file's ending, and plain text where there is none.
  std::optional<DocumentFormat> format;
  bool text_alone = false;    // the answer is a text: of a document its text is asked for
  DocumentRules rules;        // with a glossary, of plain text too
  bool detects = false;       // the language of each document, which its rules have then
  std::string output_folder;  // empty: standard output
  OutputFolder::OutputName output_name;
};

class DocumentFiles {
 public:
  // Reads all inputs. Throws InputError naming the file or the flag.
  DocumentFiles(std::vector<DocumentInput> inputs, const DocumentFileOptions& options);

  // A request for each, in the order of the documents.
  const std::vector<std::string>& requests() const { return requests_; }
  // The name of the document that a request is of; empty: a text of the command line.
  const std::string& name_of(size_t request) const;
  // The detected language of its document, a code: "de", "zh-Hant".
  const std::string& language_of(size_t request) const {
    return documents_.at(of_request_.at(request)).language;
  }
  // Whether a request of the same document has failed.
  bool has_failed(size_t request) const { return documents_.at(of_request_.at(request)).failed; }
  // What is for standard output once this answer is there; nothing: a document is not complete, or
  // has been written to its file. Throws InputError: a file cannot be written.
  std::optional<std::string> take(size_t request, const std::string& answer);
  // The request has failed: its document is not written. Returns as take().
  std::optional<std::string> fail(size_t request);
  // Documents before the first request: they have nothing to translate.
  std::optional<std::string> take_first();

 private:
  struct OneDocument {
    DocumentInput input;
    std::optional<TranslatableDocument> document;  // nothing: its text is a request as it is
    std::vector<std::string> answers;
    std::string language;
    size_t first_request = 0, answered = 0;
    bool failed = false;
  };
  OneDocument& document_of(size_t request);
  void open(DocumentInput input, const DocumentFileOptions& options);
  // Of the document at `place`, and of those behind it that have no request.
  std::optional<std::string> written(size_t place, const std::string& text);
  std::optional<std::string> write(size_t place, const std::string& text);

  std::vector<OneDocument> documents_;
  std::vector<std::string> requests_;
  std::vector<size_t> of_request_;  // places of documents
  std::optional<OutputFolder> folder_;
};

}  // namespace tandem::launcher
