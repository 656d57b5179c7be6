// Viterbi over the bytes of a word; its cost is linear in the word.
#include "text/pipeline/models/unigram_model.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/strings/utf8.h"
#include "text/pipeline/models/piece_index.h"

namespace tandem {
namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr int32_t kNone = -1, kUnreached = -2;

// A number as the library reads it from its shortest decimal form: digits, then one division or
// multiplication. The last bit may be another than that of the nearest number, and decides between
// segmentations that are as good.
double as_library_reads(double value) {
  std::array<char, 64> text{};
  const auto end =
      std::to_chars(text.begin(), text.end(), value, std::chars_format::scientific).ptr;
  uint64_t digits = 0;
  int decimals = 0;
  const char* at = text.begin() + (text[0] == '-' ? 1 : 0);
  bool behind_point = false;
  for (; at != end && *at != 'e'; ++at) {
    if (*at == '.') {
      behind_point = true;
      continue;
    }
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    decimals += behind_point ? 1 : 0;
  }
  int exponent = 0;
  if (at != end) std::from_chars(at[1] == '+' ? at + 2 : at + 1, end, exponent);
  exponent -= decimals;
  if (exponent < -300 || exponent > 300) return value;
  const double power = std::pow(10.0, std::abs(exponent));
  const double size =
      exponent < 0 ? static_cast<double>(digits) / power : static_cast<double>(digits) * power;
  return std::signbit(value) ? -size : size;
}

class UnigramModel final : public TokenModel {
 public:
  explicit UnigramModel(const JsonView& json) : file_(json.file()) {
    read_vocabulary(json.at("vocab"));
    if (const auto id = json.find("unk_id")) {
      unknown_ = id->id();
      if (unknown_ >= num_tokens()) id->fail("is no token of the vocabulary");
    }
    if (const auto flag = json.find("byte_fallback"); flag && flag->boolean()) read_bytes();
  }

  std::unique_ptr<WordEncoder> word_encoder(GrowthBudget&) const override {
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
    void add(std::string_view piece, std::vector<int32_t>& ids) const;

    const UnigramModel& model_;
    std::vector<End> ends_;         // by position
    std::vector<const End*> path_;  // the pieces of the best segmentation, the last first
  };

  void read_vocabulary(const JsonView& json);
  void read_bytes();
  int32_t unknown_id() const;  // throws if there is none

  std::vector<std::string> tokens_;  // by id
  std::vector<double> scores_;
  std::unordered_map<std::string_view, int32_t> ids_;  // into tokens_
  PieceIndex index_;
  double unknown_score_ = 0;
  int32_t unknown_ = kNone;
  std::vector<int32_t> bytes_;  // ids of <0x00> … <0xFF>, kNone without; empty: none is asked for
  std::string file_;
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
    scores_.push_back(score.value().is_number_float()
                          ? as_library_reads(score.value().get<double>())
                          : score.value().get<double>());
    least = std::min(least, scores_.back());
    ids_[tokens_.back()] = static_cast<int32_t>(i);  // of a token that is there twice, the last one
  }
  for (const auto& [token, id] : ids_)
    if (!token.empty()) entries.emplace_back(token, id);
  index_ = PieceIndex(std::move(entries));
  unknown_score_ = least - kUnknownPenalty;
}

void UnigramModel::read_bytes() {
  for (int byte = 0; byte < 256; ++byte) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", static_cast<unsigned>(byte));
    bytes_.push_back(token_to_id(name.data()).value_or(kNone));
  }
}

int32_t UnigramModel::unknown_id() const {
  if (unknown_ == kNone)
    throw invalid_model(file_, "model.unk_id: is needed for a character of no token");
  return unknown_;
}

void UnigramModel::Encoder::find_ends(std::string_view word) {
  ends_.assign(word.size() + 1, End());
  for (size_t begin = 0; begin < word.size();) {
    const double so_far = ends_[begin].score;
    const auto is_better = [&](size_t length, double score) {
      const End& end = ends_[begin + length];
      return end.id == kUnreached || score > end.score;
    };
    const auto character = static_cast<size_t>(code_point_at(word, begin).length);
    bool has_character = false;
    model_.index_.each_prefix(word.substr(begin), [&](size_t length, int id) {
      const double score = model_.scores_[static_cast<size_t>(id)] + so_far;
      if (is_better(length, score)) ends_[begin + length] = {score, begin, id};
      has_character = has_character || length == character;
    });
    const double score = model_.unknown_score_ + so_far;
    if (!has_character && is_better(character, score))
      ends_[begin + character] = {score, begin, model_.unknown_id()};
    begin += character;
  }
}

// A piece, or neighbouring unknown ones, which may be a token together.
void UnigramModel::Encoder::add(std::string_view piece, std::vector<int32_t>& ids) const {
  if (const auto id = model_.token_to_id(piece)) return ids.push_back(*id);
  const auto id_of = [&](char byte) { return model_.bytes_[static_cast<uint8_t>(byte)]; };
  const bool as_bytes =
      !model_.bytes_.empty() &&
      std::all_of(piece.begin(), piece.end(), [&](char byte) { return id_of(byte) != kNone; });
  if (!as_bytes) return ids.push_back(model_.unknown_id());
  for (const char byte : piece) ids.push_back(id_of(byte));
}

void UnigramModel::Encoder::encode(std::string_view word, std::vector<int32_t>& ids) {
  find_ends(word);
  path_.clear();
  for (size_t end = word.size(); end > 0; end = ends_[end].begin) path_.push_back(&ends_[end]);
  for (size_t i = path_.size(); i-- > 0;) {
    const End& first = *path_[i];
    const auto is_unknown = [&](const End& end) {
      return model_.unknown_ != kNone && end.id == model_.unknown_;
    };
    if (is_unknown(first))
      while (i > 0 && is_unknown(*path_[i - 1])) --i;
    const auto end = static_cast<size_t>(path_[i] - ends_.data());
    add(word.substr(first.begin, end - first.begin), ids);
  }
}

}  // namespace

std::unique_ptr<TokenModel> make_unigram_model(const JsonView& json) {
  return std::make_unique<UnigramModel>(json);
}

}  // namespace tandem
