// Byte-pair encoding whose merges work on symbols: strings that a model's tokens are made of, and
// that need not be tokens themselves. The last symbol of a word ends with "</w>".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/text_pipeline.h"
#include "text/tokenizer_json.h"

namespace tandem {

class SymbolBpe {
 public:
  static constexpr std::string_view kEnd = "</w>";

  // symbols: to begin with; each merge adds two and what it makes of them. merges: ["a b", …].
  // id_of: the id of a symbol's token; `unknown` for characters that are no symbol. Throws
  // InputError naming file and key.
  SymbolBpe(const std::vector<std::string>& symbols, const JsonView& merges,
            const std::function<int32_t(std::string_view symbol)>& id_of, int32_t unknown);

  // One word after the other. The model outlives it.
  class Encoder {
   public:
    Encoder(const SymbolBpe& model, GrowthBudget& budget)
        : model_(model), symbols_(model.symbols_->word_encoder(budget)) {}
    void encode(std::string_view word, std::vector<int32_t>& ids);

   private:
    const SymbolBpe& model_;
    std::unique_ptr<WordEncoder> symbols_;
    std::vector<int32_t> found_;
  };

 private:
  std::unique_ptr<TokenModel> symbols_;
  std::vector<int32_t> ids_;  // by symbol
};

}  // namespace tandem
