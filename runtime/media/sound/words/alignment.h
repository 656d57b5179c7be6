// Where in the sound each token is heard, by the weights of cross-attention: HuggingFace's
// _extract_token_timestamps().
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

// Of some heads of a decoder that reads `rows` tokens in a row; a row's weights of a head are a
// softmax over the encoder's positions, of which the first ones are here.
struct HeadWeights {
  std::span<const float> values;  // [rows, heads, positions]
  int64_t rows = 0, heads = 0, positions = 0;
};

// [rows, positions]: each head's weights normalised over the rows (mean 0, deviation 1), then the
// median over `width` positions, the edges reflected; of these the mean over the heads. Weights
// that are the same in all rows become NaN, as there. width: odd; there is no median where the
// positions are not more than half of it.
std::vector<float> alignment_matrix(const HeadWeights& weights, int width);

// Dynamic time warping through minus the matrix: the first position of each row, which never
// decreases. All are 0 if there are no positions.
std::vector<int64_t> first_positions(std::span<const float> matrix, int64_t rows,
                                     int64_t positions);

}  // namespace tandem
