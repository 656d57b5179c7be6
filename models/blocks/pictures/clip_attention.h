// Encoder attention over rows that are none of the step's positions: of encoders that change the
// length behind their layers.
#pragma once

#include "models/blocks/attention/attention.h"

namespace tandem {

// Of sequences that begin at these rows, [sequences + 1] i32; heads: this rank's. Waits for a
// device.
OwnSequences own_sequences(Context& ctx, const Tensor& starts, int heads, int head_dim);

class ClipAttention : AttentionLayer {
 public:
  // Without rotation and biases by distance.
  ClipAttention(const Weights& w, const Build& b, int64_t d_model, const AttentionOptions& options);
  // [rows, d_model] → [rows, d_model].
  Tensor forward(NormedRows& x, const OwnSequences& sequences) const;

 private:
  QKVParallelLinear qkv_;
};

}  // namespace tandem
