// The languages of a model whose tokenizer has no names for them: opus-mt-en-de, opus-mt-en-roa.
#pragma once

#include <string>

namespace tandem::server {

// Codes ("en", "de"). Empty: not known, several ("mul"), or named by each request (the targets of
// opus-mt-en-roa).
struct FixedLanguages {
  std::string source = {}, target = {};

  bool is_pair() const { return !source.empty() && !target.empty(); }
};

}  // namespace tandem::server
