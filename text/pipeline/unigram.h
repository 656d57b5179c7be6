// SentencePiece's Unigram model: the most likely segmentation of a normalised text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/piece_index.h"
#include "text/pipeline/piece_model.h"

namespace tandem {

// Immutable; usable from any thread.
class Unigram {
 public:
  // Throws InputError naming the file if a piece is there twice.
  explicit Unigram(const PieceModel& model);

  // Pieces, in order; neighbouring characters of no piece are one. The same float32 sums, and the
  // same choice of equals, as SentencePiece's.
  std::vector<std::string_view> segment(std::string_view text) const;
  // Whether it is a piece that texts are made of.
  bool contains(std::string_view piece) const { return index_.contains(piece); }

 private:
  PieceIndex index_;
  std::vector<PieceModel::Piece> pieces_;
  float unknown_score_ = 0, max_score_ = 0;
};

}  // namespace tandem
