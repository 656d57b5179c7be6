#include "python/native/documents.h"

#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/strings/readable_text.h"
#include "launcher/commands/files/document_files.h"
#include "launcher/commands/files/glossary_file.h"

using nlohmann::json;

namespace tandem::library {
namespace {

constexpr const char *kFormat = "format", *kGlossary = "glossary", *kText = "text";

DocumentFormat format_of(const json& rules) {
  const std::string name = rules.at(kFormat);
  const auto format = document_format_named(name);
  if (!format)
    throw invalid_request(
        kFormat, "\"" + readable(name) + "\" is not one of text, markdown, html, xml, srt, vtt");
  return *format;
}

std::optional<Glossary> glossary_of(const json& rules) {
  if (const auto file = rules.find("glossary_file"); file != rules.end())
    return launcher::read_glossary_file(*file, kGlossary);
  if (const auto entries = rules.find(kGlossary); entries != rules.end())
    return Glossary(entries->get<std::vector<Glossary::Entry>>(), kGlossary);
  return std::nullopt;
}

}  // namespace

Documents::Documents(const json& rules) : format_(format_of(rules)), glossary_(glossary_of(rules)) {
  rules_.language = rules.value("language", std::string());
  rules_.sentences = rules.value("sentences", true);
  if (glossary_) rules_.glossary = &*glossary_;
}

size_t Documents::add(std::string source) {
  launcher::DocumentInput input{.name = {}, .text = std::move(source), .is_text = true};
  std::string text = launcher::read_text(input);
  TranslatableDocument document(format_, std::move(text), rules_, kText);
  const size_t count = document.texts().size();
  documents_.push_back(std::make_unique<OneDocument>(
      OneDocument{std::move(document), std::move(input.end), std::vector<std::string>(count)}));
  return count;
}

Documents::OneDocument& Documents::at(size_t document) const {
  const auto& one = documents_.at(document);
  TANDEM_CHECK(one != nullptr);
  return *one;
}

const std::vector<std::string>& Documents::texts(size_t document) const {
  return at(document).document.texts();
}

void Documents::answer(size_t document, size_t text, std::string translation) {
  at(document).answers.at(text) = std::move(translation);
}

std::string Documents::write(size_t document) {
  const OneDocument& one = at(document);
  std::string out = one.document.with(one.answers) + one.end;
  documents_[document] = nullptr;
  return out;
}

std::string Documents::plain_text(size_t document) const {
  return at(document).document.plain_text();
}

}  // namespace tandem::library
