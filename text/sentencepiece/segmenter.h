// How a SentencePiece model cuts a normalised text into pieces.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "text/sentencepiece/piece_model.h"

namespace tandem {

// Immutable; usable from any thread.
class Segmenter {
 public:
  virtual ~Segmenter() = default;
  // Pieces, in order; neighbours that are no piece are one.
  virtual std::vector<std::string_view> segment(std::string_view text) const = 0;
  // Whether it is a piece that texts can contain.
  virtual bool contains(std::string_view piece) const = 0;
};

// As the model says. Throws InputError naming the file if a piece is there twice, or if the pieces
// of bytes do not fit byte_fallback.
std::unique_ptr<Segmenter> make_segmenter(const PieceModel& model);

}  // namespace tandem
