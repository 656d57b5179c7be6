// Viterbi over the bytes of the text; its cost is linear in the text.
#include "text/sentencepiece/unigram.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"

namespace tandem {
namespace {

using Type = PieceModel::Type;

constexpr float kPenalty = 10.0f;
constexpr int kNoPiece = -1, kNotReached = -2;

// The best segmentation that ends somewhere.
struct End {
  float score = 0;
  size_t begin = 0;  // of its last piece
  int piece = kNotReached;
};

}  // namespace

Unigram::Unigram(const PieceModel& model) : pieces_(model.pieces) {
  std::vector<PieceIndex::Entry> entries;
  float min_score = std::numeric_limits<float>::max();
  max_score_ = std::numeric_limits<float>::lowest();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const PieceModel::Piece& piece = pieces_[i];
    if (piece.type == Type::kNormal) {
      min_score = std::min(min_score, piece.score);
      max_score_ = std::max(max_score_, piece.score);
    }
    if (piece.type == Type::kNormal || piece.type == Type::kUserDefined)
      entries.emplace_back(piece.text, static_cast<int>(i));
  }
  unknown_score_ = min_score - kPenalty;
  index_ = PieceIndex(std::move(entries));
  if (const std::string* twice = index_.duplicate())
    throw invalid_model(model.file, "the piece " + in_quotes(*twice) + " is there twice");
}

std::vector<std::string_view> Unigram::segment(std::string_view text) const {
  std::vector<End> ends(text.size() + 1);
  for (size_t begin = 0; begin < text.size();) {
    const float so_far = ends[begin].score;
    const auto reach = [&](size_t length, float score, int piece) {
      End& end = ends[begin + length];
      if (end.piece == kNotReached || score > end.score) end = {score, begin, piece};
    };
    const auto character = static_cast<size_t>(code_point_at(text, begin).length);
    bool has_character = false;
    index_.each_prefix(text.substr(begin), [&](size_t length, int piece) {
      const PieceModel::Piece& p = pieces_[static_cast<size_t>(piece)];
      // A symbol of the user's is always preferred.
      const double score = p.type == Type::kUserDefined
                               ? static_cast<double>(static_cast<float>(length) * max_score_) - 0.1
                               : static_cast<double>(p.score);
      reach(length, static_cast<float>(score + static_cast<double>(so_far)), piece);
      has_character = has_character || length == character;
    });
    if (!has_character) reach(character, so_far + unknown_score_, kNoPiece);
    begin += character;
  }

  std::vector<std::string_view> out;
  bool unknown_behind = false;
  for (size_t end = text.size(); end > 0;) {
    const auto [score, begin, piece] = ends[end];
    const std::string_view found = text.substr(begin, end - begin);
    if (piece == kNoPiece && unknown_behind)
      out.back() = text.substr(begin, found.size() + out.back().size());
    else
      out.push_back(found);
    unknown_behind = piece == kNoPiece;
    end = begin;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace tandem
