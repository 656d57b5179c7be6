#include "text/moses/moses_model.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/stringpiece.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "base/strings/printable.h"
#include "text/moses/moses_normalizer.h"
#include "text/moses/moses_stream.h"
#include "text/moses/moses_tokenizer.h"
#include "text/pipeline/models/bpe_model.h"
#include "text/pipeline/models/vocabulary.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::string_view kEnd = "</w>";
constexpr const char* kUnknownPiece = " ";  // in no piece

std::string lowered(std::string_view text) {
  UErrorCode status = U_ZERO_ERROR;
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  icu::CaseMap::utf8ToLower("", 0, piece, sink, nullptr, status);
  TANDEM_CHECK(U_SUCCESS(status));
  return out;
}

// Merges need not make pieces of the vocabulary.
json symbols_model(const MosesFiles& files, const JsonView& merges) {
  json vocabulary = {{kUnknownPiece, 0}};
  const auto add = [&](std::string symbol) {
    vocabulary.emplace(std::move(symbol), vocabulary.size());
  };
  for (const auto& entry : files.source.items())
    if (!entry.key().empty()) add(entry.key());
  for (size_t i = 0, n = merges.size(); i < n; ++i) {
    const std::string& merge = merges.at(i).string();
    const size_t space = merge.find(' ');
    if (space == 0 || space >= merge.size() - 1) merges.at(i).fail("expected two tokens");
    std::string left = merge.substr(0, space), right = merge.substr(space + 1);
    add(left + right);
    add(std::move(left));
    add(std::move(right));
  }
  return {{"type", "BPE"},
          {"vocab", std::move(vocabulary)},
          {"merges", merges.value()},
          {"unk_token", kUnknownPiece},
          {"end_of_word_suffix", kEnd}};
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
    const json model = symbols_model(files, JsonView(files.merges, file));
    symbols_ = std::make_unique<BpeModel>(JsonView(model, file));
    for (int32_t symbol = 0; symbol <= symbols_->max_id(); ++symbol)
      ids_.push_back(vocabulary_.find(symbols_->id_to_token(symbol).value_or(kUnknownPiece))
                         .value_or(*unknown));
    ids_[0] = *unknown;
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
        : model_(model), symbols_(model.symbols_->word_encoder(budget)) {}
    void encode(std::string_view text, std::vector<int32_t>& ids) override {
      std::u32string plain = model_.lower_case_ ? moses::normalize(lowered(text), model_.language_)
                                                : moses::normalize(text, model_.language_);
      for (const std::string& word : moses::tokenize(std::move(plain), model_.language_)) {
        found_.clear();
        symbols_->encode(word, found_);
        for (const int32_t symbol : found_) ids.push_back(model_.ids_[static_cast<size_t>(symbol)]);
      }
    }

   private:
    const MosesModel& model_;
    std::unique_ptr<WordEncoder> symbols_;
    std::vector<int32_t> found_;
  };

  Vocabulary target_;
  std::string language_;
  bool lower_case_;
  std::unique_ptr<TokenModel> symbols_;
  std::vector<int32_t> ids_;  // by symbol
};

class MosesDecoder final : public Decoder {
 public:
  explicit MosesDecoder(std::string language) : language_(std::move(language)) {}
  std::string token_bytes(std::string_view token) const override {
    if (!token.ends_with(kEnd)) return std::string(token);
    return std::string(token.substr(0, token.size() - kEnd.size())) + ' ';
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
