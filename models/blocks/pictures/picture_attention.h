// Encoder attention within windows of a picture, at a cost linear in its points (Swin, Liu et al.
// 2021): a token sees its window, with a learned bias for each way from point to point.
#pragma once

#include "kernels/picture_windows.h"
#include "models/blocks/attention/attention.h"

namespace tandem {

struct PictureAttentionOptions {
  PictureWindows windows = {};
  // [(2 window - 1)^2, heads]; nullptr: there are no biases.
  const char* table = "relative_position_bias_table";
};

class PictureAttention : AttentionLayer {
 public:
  PictureAttention(const Weights& w, const Build& b, int64_t d_model,
                   const AttentionOptions& options, const PictureAttentionOptions& picture);
  // x: the points of whole pictures.
  Tensor forward(NormedRows& x, const StepTensors& in) const;

 private:
  PictureWindows windows_;
  QKVParallelLinear qkv_;
  Tensor bias_;           // [heads of this rank, (2 window - 1)^2] f32
  Tensor pad_k_, pad_v_;  // of points that fill up windows, which are zero; empty: there are none
};

}  // namespace tandem
