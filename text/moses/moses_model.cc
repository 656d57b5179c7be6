#include "text/moses/moses_model.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings/printable.h"
#include "text/moses/moses_normalizer.h"
#include "text/moses/moses_stream.h"
#include "text/moses/moses_tokenizer.h"
#include "text/pipeline/models/symbol_bpe.h"
#include "text/pipeline/models/vocabulary.h"
#include "text/unicode/letter_case.h"

namespace tandem {
namespace {

using nlohmann::json;

// Merges need not make pieces of the vocabulary.
std::vector<std::string> keys_of(const json& vocabulary) {
  std::vector<std::string> out;
  for (const auto& entry : vocabulary.items()) out.push_back(entry.key());
  return out;
}

class MosesModel final : public VocabularyModel {
 public:
  MosesModel(const MosesFiles& files, const std::string& file)
      : VocabularyModel(JsonView(files.source, file)),
        target_(JsonView(files.target, file)),
        language_(files.source_language),
        lower_case_(files.lower_case) {
    const auto unknown = vocabulary_.find(files.unknown_token);
    if (!unknown)
      throw invalid_model(file, in_quotes(files.unknown_token) + " is not in the vocabulary");
    const auto id_of = [&](std::string_view symbol) {
      return vocabulary_.find(symbol).value_or(*unknown);
    };
    symbols_.emplace(keys_of(files.source), JsonView(files.merges, file), id_of, *unknown);
  }

  std::optional<std::string_view> id_to_token(int32_t id) const override {
    return target_.token(id);
  }
  int32_t max_id() const override { return std::max(VocabularyModel::max_id(), target_.max_id()); }
  std::unique_ptr<WordEncoder> word_encoder(GrowthBudget& budget) const override {
    return std::make_unique<Encoder>(*this, budget);
  }

 private:
  class Encoder final : public WordEncoder {
   public:
    Encoder(const MosesModel& model, GrowthBudget& budget)
        : model_(model), symbols_(*model.symbols_, budget) {}
    void encode(std::string_view text, std::vector<int32_t>& ids) override {
      const std::string& language = model_.language_;
      std::u32string plain =
          moses::normalize(model_.lower_case_ ? lower_case(text) : std::string(text), language);
      for (const std::string& word : moses::tokenize(std::move(plain), language))
        symbols_.encode(word, ids);
    }

   private:
    const MosesModel& model_;
    SymbolBpe::Encoder symbols_;
  };

  Vocabulary target_;
  std::string language_;
  bool lower_case_;
  std::optional<SymbolBpe> symbols_;
};

class MosesDecoder final : public Decoder {
 public:
  explicit MosesDecoder(std::string language) : language_(std::move(language)) {}
  std::string token_bytes(std::string_view token) const override {
    if (!token.ends_with(SymbolBpe::kEnd)) return std::string(token);
    return std::string(token.substr(0, token.size() - SymbolBpe::kEnd.size())) + ' ';
  }
  std::unique_ptr<TokenStream> stream() const override {
    return std::make_unique<moses::MosesStream>(language_);
  }

 private:
  std::string language_;
};

}  // namespace

std::unique_ptr<TokenModel> make_moses_model(const MosesFiles& files, const std::string& file) {
  return std::make_unique<MosesModel>(files, file);
}

std::unique_ptr<Decoder> make_moses_decoder(const MosesFiles& files) {
  return std::make_unique<MosesDecoder>(files.target_language);
}

}  // namespace tandem
