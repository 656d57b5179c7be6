// Encoder attention that weighs how far apart two rows are (Transformer-XL, Dai et al. 2019).
#pragma once

#include <span>

#include "models/blocks/attention/attention.h"

namespace tandem {

// What stands for each distance between rows of a step: [distances, d_model]. Made once a step, of
// a table of all of them, for all layers.
struct Distances {
  Tensor rows;
  int32_t zero = 0;  // the row of distance 0

  // The table for sequences of up to `longest` rows, [2 longest - 1, d_model] f32: of key minus
  // query, from the most negative on. Sines and cosines of query minus key, in turn.
  static Tensor table(int longest, int d_model);
  // Those of a step with sequences of these lengths; at least one.
  static Distances of(Context& ctx, const Tensor& table, std::span<const int32_t> lengths);
};

class RelativeAttention : AttentionLayer {
 public:
  // w: the projections, relative_k_proj, bias_u and bias_v.
  RelativeAttention(const Weights& w, const Build& b, int64_t d_model,
                    const AttentionOptions& options);
  // Each sequence by itself; indptr [sequences + 1] i32.
  Tensor forward(NormedRows& x, const Tensor& indptr, const Distances& distances) const;

 private:
  QKVParallelLinear qkv_;
  PackedWeight distance_weight_;  // of this rank's heads
  Tensor q_bias_, d_bias_;
};

}  // namespace tandem
