#include "text/pipeline/models/word_models.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings/printable.h"
#include "text/pipeline/models/piece_index.h"
#include "text/pipeline/models/vocabulary.h"

namespace tandem {
namespace {

// A model with a token for words that it does not know.
class WordModel : public VocabularyModel {
 protected:
  explicit WordModel(const JsonView& json)
      : VocabularyModel(json.at("vocab")),
        file_(json.file()),
        unknown_token_(json.at("unk_token").string()) {}

  int32_t unknown_id() const {
    const auto id = vocabulary_.find(unknown_token_);
    if (!id)
      throw invalid_model(file_, "model.unk_token: " + in_quotes(unknown_token_) +
                                     " is needed but is not in the vocabulary");
    return *id;
  }

 private:
  std::string file_, unknown_token_;
};

class WordLevelModel final : public WordModel {
 public:
  explicit WordLevelModel(const JsonView& json) : WordModel(json) {}
  std::unique_ptr<WordEncoder> word_encoder(GrowthBudget&) const override {
    return std::make_unique<Encoder>(*this);
  }

 private:
  class Encoder final : public WordEncoder {
   public:
    explicit Encoder(const WordLevelModel& model) : model_(model) {}
    void encode(std::string_view word, std::vector<int32_t>& ids) override {
      const auto id = model_.vocabulary_.find(word);
      ids.push_back(id ? *id : model_.unknown_id());
    }

   private:
    const WordLevelModel& model_;
  };
};

// Pieces that are not the first of a word have a prefix in the vocabulary. A word that pieces do
// not cover is unknown as a whole.
class WordPieceModel final : public WordModel {
 public:
  explicit WordPieceModel(const JsonView& json) : WordModel(json) {
    const std::string prefix = json.at("continuing_subword_prefix").string();
    max_characters_ = read_max_characters(json.at("max_input_chars_per_word"));
    std::vector<PieceIndex::Entry> first, later;
    for (const auto& entry : json.at("vocab").object().items()) {
      const std::string& token = entry.key();
      const auto id = entry.value().get<int32_t>();
      if (!token.empty()) first.emplace_back(token, id);
      if (token.size() > prefix.size() && token.starts_with(prefix))
        later.emplace_back(token.substr(prefix.size()), id);
    }
    first_ = PieceIndex(std::move(first));
    later_ = PieceIndex(std::move(later));
  }
  std::unique_ptr<WordEncoder> word_encoder(GrowthBudget&) const override {
    return std::make_unique<Encoder>(*this);
  }

 private:
  class Encoder final : public WordEncoder {
   public:
    explicit Encoder(const WordPieceModel& model) : model_(model) {}
    void encode(std::string_view word, std::vector<int32_t>& ids) override {
      const size_t before = ids.size();
      bool known = model_.is_short(word);
      for (size_t at = 0; known && at < word.size();) {
        size_t length = 0;
        (at == 0 ? model_.first_ : model_.later_)
            .each_prefix(word.substr(at), [&](size_t piece, int id) {
              if (length == 0) ids.push_back(id);
              ids.back() = id;
              length = piece;
            });
        known = length > 0;
        at += length;
      }
      if (known) return;
      ids.resize(before);
      ids.push_back(model_.unknown_id());
    }

   private:
    const WordPieceModel& model_;
  };

  static uint64_t read_max_characters(const JsonView& json) {
    const nlohmann::json& value = json.value();  // (2^64 - 1 is below 0 if it is compared with 0)
    if (!value.is_number_unsigned() && !(value.is_number_integer() && value.get<int64_t>() >= 0))
      json.fail("expected a number, 0 or more");
    return value.get<uint64_t>();
  }
  bool is_short(std::string_view word) const {
    const auto begins = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
    return word.size() <= max_characters_ ||
           static_cast<uint64_t>(std::count_if(word.begin(), word.end(), begins)) <=
               max_characters_;
  }

  uint64_t max_characters_;
  PieceIndex first_, later_;  // what words begin with, and go on with, without the prefix
};

}  // namespace

std::unique_ptr<TokenModel> make_word_level_model(const JsonView& json) {
  return std::make_unique<WordLevelModel>(json);
}

std::unique_ptr<TokenModel> make_word_piece_model(const JsonView& json) {
  return std::make_unique<WordPieceModel>(json);
}

}  // namespace tandem
