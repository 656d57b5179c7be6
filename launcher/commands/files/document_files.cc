#include "launcher/commands/files/document_files.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings/readable_text.h"
#include "base/strings/utf8.h"
#include "launcher/commands/command.h"
#include "launcher/commands/files/file_arguments.h"
#include "launcher/commands/files/input.h"
#include "text/language_detector.h"

namespace tandem::launcher {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& argument, const std::string& why) {
  throw invalid_request("TEXT", "\"" + readable(argument) + "\": " + why);
}

KnownFiles documents() {
  return {.argument = "TEXT",
          .has = [](const std::string& name) { return document_format_of_file(name).has_value(); },
          .endings = known_document_endings()};
}

void append_line(std::optional<std::string>& to, std::optional<std::string> more) {
  if (!more) return;
  to = to ? *to + "\n" + *more : std::move(more);
}

// A word may be a text: "Hello.". This is for what was meant as a path.
bool looks_like_a_file(const std::string& argument) {
  return argument.find('/') != std::string::npos ||
         fs::path(argument).extension().string().size() > 1;
}

// Of files whose text lies in something else; empty: it is none of those.
std::string other_kind(const std::string& text) {
  const auto begins = [&](std::string_view with) {
    return std::string_view(text).starts_with(with);
  };
  if (begins("PK\x03\x04") || begins("\xd0\xcf\x11\xe0"))
    return "is a document of an office program, or an archive: save it as HTML or as plain text";
  if (begins("%PDF-"))
    return "is a PDF file: take its text (pdftotext), or `tandem read` for scans";
  if (begins("{\\rtf")) return "is an RTF file: save it as HTML or as plain text";
  return "";
}

void check_text(const std::string& name, const std::string& text) {
  const auto fail = [&](const std::string& why) {
    throw invalid_request(name == "-" ? "standard input" : readable(name), why);
  };
  if (const std::string kind = other_kind(text); !kind.empty()) fail(kind);
  if (const size_t at = find_invalid_utf8(text); at < text.size())
    fail("is not a text in UTF-8: the byte at offset " + std::to_string(at) +
         " belongs to no character");
}

// The text of a document; of plain text itself.
std::string text_alone(DocumentFormat format, const std::string& text, const std::string& name) {
  if (format == DocumentFormat::kText) return text;
  return TranslatableDocument(format, text, {}, name).plain_text();
}

std::string detected_language(const std::string& text, const std::string& name) {
  const std::vector<DetectedLanguage> found = detect_languages(text);
  if (found.empty())
    throw invalid_request("--from", name + ": its language is not recognised; name it");
  return found.front().code;
}

}  // namespace

std::vector<DocumentInput> find_documents(const std::vector<std::string>& arguments) {
  std::vector<DocumentInput> out;
  const auto add_files = [&](const std::vector<std::string>& files) {
    for (const std::string& file : files) out.push_back({file, {}, false});
  };
  if (std::count(arguments.begin(), arguments.end(), "-") > 1)
    refuse("-", "standard input is read once");
  for (const std::string& argument : arguments) {
    std::error_code error;
    if (argument == "-")
      add_files({"-"});
    else if (fs::is_directory(argument, error))
      add_files(files_of_folder(argument, documents()));
    else if (fs::exists(argument, error))
      add_files({argument});
    else if (argument.find_first_of(" \t\n") != std::string::npos)
      out.push_back({"", argument, true});
    else if (is_pattern(argument))
      add_files(files_of_pattern(argument, documents()));
    else if (argument.empty())
      refuse(argument, "is empty");
    else if (is_address(argument))
      refuse(argument, kAddress);
    else if (looks_like_a_file(argument))
      refuse(argument, "there is no such file");
    else {
      std::fprintf(stderr, "tandem: \"%s\" is a text: there is no such file\n",
                   readable(argument).c_str());
      out.push_back({"", argument, true});
    }
  }
  return out;
}

std::string read_text(DocumentInput& input) {
  std::string text = input.text;
  if (!input.is_text) {
    const std::unique_ptr<std::istream> in = open_input(input.name);
    text.assign(std::istreambuf_iterator<char>(*in), std::istreambuf_iterator<char>());
    check_text(input.name, text);
  }
  const size_t end = text.find_last_not_of("\n\r") + 1;
  input.end = text.substr(end);
  text.resize(end);
  return text;
}

DocumentFiles::DocumentFiles(std::vector<DocumentInput> inputs,
                             const DocumentFileOptions& options) {
  if (!options.output_folder.empty()) {
    std::vector<std::string> names;
    for (const DocumentInput& input : inputs) {
      if (input.is_text)
        throw invalid_request(
            "--output-dir",
            "is for files; \"" + readable(input.text.substr(0, 40)) + "\" is a text");
      names.push_back(input.name);
    }
    folder_.emplace(options.output_folder, names, options.output_name);
  }
  for (DocumentInput& input : inputs) open(std::move(input), options);
}

void DocumentFiles::open(DocumentInput input, const DocumentFileOptions& options) {
  OneDocument one;
  std::string text = read_text(input);
  const DocumentFormat format =
      options.format ? *options.format
                     : document_format_of_file(input.name).value_or(DocumentFormat::kText);
  one.first_request = requests_.size();
  const std::string name = input.name.empty() ? "TEXT" : readable(input.name);
  DocumentRules rules = options.rules;
  if (options.detects)
    rules.language = one.language = detected_language(text_alone(format, text, name), name);
  const bool is_plain =
      format == DocumentFormat::kText && (options.text_alone || options.rules.glossary == nullptr);
  if (!is_plain) {
    TranslatableDocument document(format, std::move(text), rules, name);
    if (options.text_alone)
      text = document.plain_text();
    else
      one.document.emplace(std::move(document));
  }
  if (one.document) {
    one.answers.resize(one.document->texts().size());
    requests_.insert(requests_.end(), one.document->texts().begin(), one.document->texts().end());
  } else {
    one.answers.resize(1);
    requests_.push_back(std::move(text));
  }
  of_request_.resize(requests_.size(), documents_.size());
  one.input = std::move(input);
  documents_.push_back(std::move(one));
}

DocumentFiles::OneDocument& DocumentFiles::document_of(size_t request) {
  return documents_.at(of_request_.at(request));
}

const std::string& DocumentFiles::name_of(size_t request) const {
  return documents_.at(of_request_.at(request)).input.name;
}

std::optional<std::string> DocumentFiles::take(size_t request, const std::string& answer) {
  OneDocument& one = document_of(request);
  one.answers.at(request - one.first_request) = answer;
  if (++one.answered < one.answers.size()) return std::nullopt;
  const size_t place = of_request_.at(request);
  if (one.failed) return written(place, {});
  const std::string text = one.document ? one.document->with(one.answers) : answer;
  return written(place, text);
}

std::optional<std::string> DocumentFiles::fail(size_t request) {
  OneDocument& one = document_of(request);
  if (!one.failed && one.document)
    std::fprintf(stderr, "tandem: %s: is not written, because a part of it has failed\n",
                 one.input.name.empty() ? "the text" : readable(one.input.name).c_str());
  one.failed = true;
  if (++one.answered != one.answers.size()) return std::nullopt;
  return written(of_request_.at(request), {});
}

std::optional<std::string> DocumentFiles::take_first() {
  std::optional<std::string> out;
  for (size_t i = 0; i < documents_.size() && documents_[i].answers.empty(); ++i)
    append_line(out, write(i, documents_[i].document->source()));
  return out;
}

std::optional<std::string> DocumentFiles::written(size_t place, const std::string& text) {
  std::optional<std::string> out;
  if (!documents_[place].failed) out = write(place, text);
  for (size_t i = place + 1; i < documents_.size() && documents_[i].answers.empty(); ++i)
    append_line(out, write(i, documents_[i].document->source()));
  return out;
}

std::optional<std::string> DocumentFiles::write(size_t place, const std::string& text) {
  if (!folder_) return text;
  const OneDocument& one = documents_[place];
  const bool needs_end = one.input.end.empty() && !one.document;
  const std::string why = folder_->write(place, text + (needs_end ? "\n" : one.input.end));
  if (!why.empty())
    throw InputError(ErrorKind::kResource,
                     readable(folder_->path(place).string()) + ": cannot be written: " + why);
  return std::nullopt;
}

}  // namespace tandem::launcher
