#include "text/pipeline/models/symbol_bpe.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "text/pipeline/models/bpe_model.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr const char* kNoSymbol = " ";  // in no piece

json symbols_model(const std::vector<std::string>& symbols, const JsonView& merges) {
  json vocabulary = {{kNoSymbol, 0}};
  const auto add = [&](std::string symbol) {
    if (!symbol.empty()) vocabulary.emplace(std::move(symbol), vocabulary.size());
  };
  for (const std::string& symbol : symbols) add(symbol);
  for (size_t i = 0, n = merges.size(); i < n; ++i) {
    const std::string& merge = merges.at(i).string();
    const size_t space = merge.find(' ');
    if (space == std::string::npos) merges.at(i).fail("expected two tokens");
    std::string left = merge.substr(0, space), right = merge.substr(space + 1);
    add(left + right);
    add(std::move(left));
    add(std::move(right));
  }
  return {{"type", "BPE"},
          {"vocab", std::move(vocabulary)},
          {"merges", merges.value()},
          {"unk_token", kNoSymbol},
          {"end_of_word_suffix", SymbolBpe::kEnd}};
}

}  // namespace

SymbolBpe::SymbolBpe(const std::vector<std::string>& symbols, const JsonView& merges,
                     const std::function<int32_t(std::string_view symbol)>& id_of,
                     int32_t unknown) {
  const json model = symbols_model(symbols, merges);
  symbols_ = std::make_unique<BpeModel>(JsonView(model, merges.file()));
  for (int32_t symbol = 0; symbol <= symbols_->max_id(); ++symbol)
    ids_.push_back(symbol == 0 ? unknown
                               : id_of(symbols_->id_to_token(symbol).value_or(kNoSymbol)));
}

void SymbolBpe::Encoder::encode(std::string_view word, std::vector<int32_t>& ids) {
  found_.clear();
  symbols_->encode(word, found_);
  for (const int32_t symbol : found_) ids.push_back(model_.ids_[static_cast<size_t>(symbol)]);
}

}  // namespace tandem
