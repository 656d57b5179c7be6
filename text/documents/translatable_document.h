// A document as the texts in it that are to be translated, and the frame that takes their
// translations. Pure: no tokenizer, no model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/documents/document_format.h"
#include "text/documents/glossary.h"
#include "text/documents/marked_text.h"
#include "text/documents/readers/document_readers.h"

namespace tandem {

struct DocumentRules {
  std::string language;                // of the source, as for sentences_of()
  bool sentences = true;               // each by itself; else each paragraph, heading, cell, …
  const Glossary* glossary = nullptr;  // is read by the constructor only
  TagRules tags = {};                  // of HTML and XML
};

class TranslatableDocument {
 public:
  // Throws InputError naming `field`: no UTF-8, XML that is not well-formed.
  TranslatableDocument(DocumentFormat format, std::string source, const DocumentRules& rules,
                       const std::string& field);

  DocumentFormat format() const { return format_; }
  const std::string& source() const { return source_; }
  // To be translated, each once, in the order of the document. The markup within a sentence is not
  // in its text. May be empty.
  const std::vector<std::string>& texts() const { return texts_; }
  // The document with the i-th translation in place of texts()[i]. What the model gives back as it
  // was stays byte for byte; so does every byte that is not of a text.
  std::string with(const std::vector<std::string>& translations) const;
  // The document's text alone: a line for each paragraph, heading, cell, …
  std::string plain_text() const;

 private:
  DocumentFormat format_;
  std::string source_;
  std::vector<MarkedText> sentences_;  // in order; they do not overlap
  std::vector<std::string> texts_;
};

}  // namespace tandem
