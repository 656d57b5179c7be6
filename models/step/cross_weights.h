// The weights of cross-attention that a step is asked for: of some heads, for rows of one sequence.
// Attention itself does not store any; these are computed beside it (ops::attention_weights).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/tensor.h"

namespace tandem {

struct DecoderHead {
  int32_t layer = 0, head = 0;
};

struct CrossWeights {
  struct Rows {
    int32_t first_row = 0, end_row = 0;    // of the step's tokens
    int32_t first_page = 0, end_page = 0;  // of its cross-attention's page indices
    int64_t keys = 0;                      // of the sequence
    int64_t positions = 0;                 // of them the first, that are asked for
    std::vector<DecoderHead> heads;
    // [rows, heads * positions] f32, head after head. The decoder writes all of it; on several
    // ranks those of other ranks' heads are zeros.
    Tensor out;
  };
  std::vector<Rows> wanted;
};

}  // namespace tandem
