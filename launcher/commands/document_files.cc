#include "launcher/commands/document_files.h"

#include <cstdio>
#include <utility>

#include "base/error.h"
#include "base/readable_text.h"
#include "launcher/commands/command.h"

namespace tandem::launcher {
namespace {

void append_line(std::optional<std::string>& to, std::optional<std::string> more) {
  if (!more) return;
  to = to ? *to + "\n" + *more : std::move(more);
}

}  // namespace

DocumentFiles::DocumentFiles(std::vector<DocumentInput> inputs,
                             const DocumentFileOptions& options) {
  if (!options.output_folder.empty()) {
    std::vector<std::string> names;
    for (const DocumentInput& input : inputs) {
      if (input.is_text)
        throw UsageError("--output-dir",
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
  const bool is_plain =
      format == DocumentFormat::kText && (options.text_alone || options.rules.glossary == nullptr);
  if (!is_plain) {
    TranslatableDocument document(format, std::move(text), options.rules,
                                  input.name.empty() ? "TEXT" : readable(input.name));
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
