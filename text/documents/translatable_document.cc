#include "text/documents/translatable_document.h"

#include <utility>

#include "base/check.h"
#include "base/strings/utf8.h"
#include "text/documents/document_flow.h"
#include "text/documents/encode_text.h"

namespace tandem {
namespace {

void read_document(DocumentFormat format, DocumentFlow& flow, const TagRules& tags,
                   const std::string& field) {
  switch (format) {
    case DocumentFormat::kText: return read_lines(flow);
    case DocumentFormat::kMarkdown: return read_markdown(flow);
    case DocumentFormat::kHtml: return read_html(flow, tags, 0, flow.source().size());
    case DocumentFormat::kXml: return read_xml(flow, tags, field);
    case DocumentFormat::kSrt:
    case DocumentFormat::kVtt: return read_subtitles(flow);
  }
}

}  // namespace

TranslatableDocument::TranslatableDocument(DocumentFormat format, std::string source,
                                           const DocumentRules& rules, const std::string& field)
    : format_(format), source_(std::move(source)) {
  check_utf8(source_, field);
  DocumentFlow flow(source_, {rules.language, rules.sentences, rules.glossary});
  read_document(format_, flow, rules.tags, field);
  sentences_ = flow.take_sentences();
  texts_ = flow.take_texts();
}

std::string TranslatableDocument::with(const std::vector<std::string>& translations) const {
  TANDEM_CHECK_EQ(translations.size(), texts_.size());
  const EncodeText encode = encoder_of(format_);
  std::string out;
  out.reserve(source_.size() + source_.size() / 4);
  size_t at = 0;
  for (const MarkedText& sentence : sentences_) {
    TANDEM_CHECK_LE(at, sentence.begin);
    out += std::string_view(source_).substr(at, sentence.begin - at);
    out += sentence.written(source_, translations, encode);
    at = sentence.end;
  }
  out += std::string_view(source_).substr(at);
  return out;
}

std::string TranslatableDocument::plain_text() const {
  std::string out;
  size_t block = 0;
  for (const MarkedText& sentence : sentences_) {
    if (!out.empty()) out += sentence.block == block ? ' ' : '\n';
    out += sentence.text;
    block = sentence.block;
  }
  return out;
}

}  // namespace tandem
