// Documents of one call, which are translated with their markup left in place (docs/documents.md).
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/documents/translatable_document.h"

namespace tandem::library {

// As `tandem translate` reads and writes files. Documents and their texts count from 0; one that
// has been written is gone. One thread at a time.
class Documents {
 public:
  // As tandem_documents_open() (library.h). Throws InputError: "format", "glossary".
  explicit Documents(const nlohmann::json& rules);
  Documents(const Documents&) = delete;
  Documents& operator=(const Documents&) = delete;

  // Reads the next one. Returns how many texts it has. Throws InputError: "text".
  size_t add(std::string source);
  // Of a document, to be translated.
  const std::vector<std::string>& texts(size_t document) const;
  // The translation of one of them.
  void answer(size_t document, size_t text, std::string translation);
  // The document with its translations.
  std::string write(size_t document);
  // Its text without markup.
  std::string plain_text(size_t document) const;

 private:
  struct OneDocument {
    TranslatableDocument document;
    std::string end;  // line ends behind it
    std::vector<std::string> answers;
  };

  OneDocument& at(size_t document) const;

  DocumentFormat format_ = DocumentFormat::kText;
  std::optional<Glossary> glossary_;
  DocumentRules rules_;
  std::vector<std::unique_ptr<OneDocument>> documents_;  // null: has been written
};

}  // namespace tandem::library
