// Encoder attention among tokens that have boxes on a page (UDOP, Tang et al. 2022): scores have
// biases by the tokens' distances in the text, across the page and down it.
#pragma once

#include "models/blocks/attention/attention.h"

namespace tandem {

// Of this rank's heads, resident. AttentionOptions::position_bias is the text's.
struct BoxBiases {
  ops::PositionBias across, down;
};

class BoxAttention : AttentionLayer {
 public:
  BoxAttention(const Weights& w, const Build& b, int64_t d_model, const AttentionOptions& options,
               const BoxBiases& biases);
  // Tokens have the boxes of in.boxes.
  Tensor forward(NormedRows& x, const StepTensors& in) const;

 private:
  QKVParallelLinear qkv_;
  BoxBiases biases_;
};

}  // namespace tandem
