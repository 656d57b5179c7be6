// Viterbi over the bytes of a word; its cost is linear in the word.
#include "text/pipeline/models/unigram_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/printable.h"
#include "base/utf8.h"
#include "text/sentencepiece/piece_index.h"

namespace tandem {
namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr int32_t kUnknown = -1, kUnreached = -2;

class UnigramModel final : public TokenModel {
 public:
  explicit UnigramModel(const JsonView& json) {
    read_vocabulary(json.at("vocab"));
    if (const auto id = json.find("unk_id")) {
      unknown_ = id->id();
      if (unknown_ >= num_tokens()) id->fail("is no token of the vocabulary");
    }
    if (const auto flag = json.find("byte_fallback"); flag && flag->boolean()) read_bytes();
  }

  std::unique_ptr<WordEncoder> word_encoder() const override {
    return std::make_unique<Encoder>(*this);
  }
  std::optional<int32_t> token_to_id(std::string_view token) const override {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::string_view> id_to_token(int32_t id) const override {
    if (id < 0 || id >= num_tokens()) return std::nullopt;
    return tokens_[static_cast<size_t>(id)];
  }
  int32_t num_tokens() const override { return static_cast<int32_t>(tokens_.size()); }
  int32_t max_id() const override { return num_tokens() - 1; }

 private:
  // The best segmentation that ends somewhere.
  struct End {
    double score = 0;
    size_t begin = 0;  // of its last piece
    int32_t id = kUnreached;
  };

  class Encoder final : public WordEncoder {
   public:
    explicit Encoder(const UnigramModel& model) : model_(model) {}
    void encode(std::string_view word, std::vector<int32_t>& ids) override;

   private:
    void find_ends(std::string_view word);

    const UnigramModel& model_;
    std::vector<End> ends_;         // by position
    std::vector<const End*> path_;  // the pieces of the best segmentation, the last first
  };

  void read_vocabulary(const JsonView& json);
  void read_bytes();

  std::vector<std::string> tokens_;  // by id
  std::vector<double> scores_;
  std::unordered_map<std::string_view, int32_t> ids_;  // into tokens_
  PieceIndex index_;
  double unknown_score_ = 0;
  int32_t unknown_ = kUnknown;
  std::vector<int32_t> bytes_;  // ids of <0x00> … <0xFF>; empty: there are none
};

void UnigramModel::read_vocabulary(const JsonView& json) {
  const size_t size = json.size();
  if (size == 0 || size > size_t{kMaxVocabulary}) json.fail("expected a list of tokens");
  tokens_.reserve(size);
  std::vector<PieceIndex::Entry> entries;
  double least = std::numeric_limits<double>::max();
  for (size_t i = 0; i < size; ++i) {
    const JsonView entry = json.at(i);
    if (entry.size() != 2) entry.fail("expected a token and its score");
    const JsonView score = entry.at(size_t{1});
    if (!score.value().is_number()) score.fail("expected a number");
    tokens_.push_back(entry.at(size_t{0}).string());
    scores_.push_back(score.value().get<double>());
    least = std::min(least, scores_.back());
    const auto id = static_cast<int32_t>(i);
    if (!ids_.emplace(tokens_.back(), id).second)
      entry.fail("the token " + in_quotes(tokens_.back()) + " is there twice");
    if (!tokens_.back().empty()) entries.emplace_back(tokens_.back(), id);
  }
  index_ = PieceIndex(std::move(entries));
  unknown_score_ = least - kUnknownPenalty;
}

void UnigramModel::read_bytes() {
  for (int byte = 0; byte < 256; ++byte) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", static_cast<unsigned>(byte));
    const auto id = token_to_id(name.data());
    if (!id) return bytes_.clear();
    bytes_.push_back(*id);
  }
}

void UnigramModel::Encoder::find_ends(std::string_view word) {
  ends_.assign(word.size() + 1, End());
  for (size_t begin = 0; begin < word.size();) {
    const double so_far = ends_[begin].score;
    const auto reach = [&](size_t length, double score, int32_t id) {
      End& end = ends_[begin + length];
      if (end.id == kUnreached || score > end.score) end = {score, begin, id};
    };
    const auto character = static_cast<size_t>(code_point_at(word, begin).length);
    bool has_character = false;
    model_.index_.each_prefix(word.substr(begin), [&](size_t length, int id) {
      reach(length, model_.scores_[static_cast<size_t>(id)] + so_far, id);
      has_character = has_character || length == character;
    });
    if (!has_character) reach(character, model_.unknown_score_ + so_far, kUnknown);
    begin += character;
  }
}

void UnigramModel::Encoder::encode(std::string_view word, std::vector<int32_t>& ids) {
  find_ends(word);
  path_.clear();
  for (size_t end = word.size(); end > 0; end = ends_[end].begin) path_.push_back(&ends_[end]);
  bool unknown_before = false;  // neighbouring characters of no piece are one
  for (auto piece = path_.rbegin(); piece != path_.rend(); ++piece) {
    const bool unknown = (*piece)->id == kUnknown;
    if (!unknown) {
      ids.push_back((*piece)->id);
    } else if (!model_.bytes_.empty()) {
      const auto end = static_cast<size_t>(*piece - ends_.data());
      for (size_t at = (*piece)->begin; at < end; ++at)
        ids.push_back(model_.bytes_[static_cast<uint8_t>(word[at])]);
    } else if (!unknown_before && model_.unknown_ != kUnknown) {
      ids.push_back(model_.unknown_);
    }
    unknown_before = unknown;
  }
}

}  // namespace

std::unique_ptr<TokenModel> make_unigram_model(const JsonView& json) {
  return std::make_unique<UnigramModel>(json);
}

}  // namespace tandem
