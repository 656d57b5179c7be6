// SentencePiece's BPE model: the neighbours that make the piece with the highest score are merged
// first.
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/pipeline/models/piece_index.h"
#include "text/sentencepiece/segmenter.h"

namespace tandem {

class PieceBpe final : public Segmenter {
 public:
  // Throws InputError naming the file if a piece is there twice.
  explicit PieceBpe(const PieceModel& model);
  PieceBpe(const PieceBpe&) = delete;  // by_text_ points into pieces_
  PieceBpe& operator=(const PieceBpe&) = delete;

  std::vector<std::string_view> segment(std::string_view text) const override;
  bool contains(std::string_view piece) const override { return by_text_.count(piece) != 0; }

 private:
  const PieceModel::Piece* find(std::string_view text) const;

  std::vector<PieceModel::Piece> pieces_;
  std::unordered_map<std::string_view, size_t> by_text_;
  PieceIndex user_defined_;  // never merged

  friend class PieceMerger;
};

}  // namespace tandem
