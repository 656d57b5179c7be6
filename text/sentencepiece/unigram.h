// SentencePiece's Unigram model: the most likely segmentation of a normalised text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/models/piece_index.h"
#include "text/sentencepiece/piece_model.h"
#include "text/sentencepiece/segmenter.h"

namespace tandem {

class Unigram final : public Segmenter {
 public:
  // Throws InputError naming the file if a piece is there twice.
  explicit Unigram(const PieceModel& model);

  // The same float32 sums, and the same choice of equals, as SentencePiece's.
  std::vector<std::string_view> segment(std::string_view text) const override;
  bool contains(std::string_view piece) const override { return index_.contains(piece); }

 private:
  PieceIndex index_;
  std::vector<PieceModel::Piece> pieces_;
  float unknown_score_ = 0, max_score_ = 0;
};

}  // namespace tandem
