// Encoder attention among the features of a picture instead of its points (DaViT, Ding et al.
// 2022), in groups, at a cost linear in the points.
#pragma once

#include "models/blocks/attention/attention.h"

namespace tandem {

class ChannelAttention : AttentionLayer {
 public:
  // Groups are the options' heads, of head_dim features. points: of a picture.
  ChannelAttention(const Weights& w, const Build& b, int64_t d_model,
                   const AttentionOptions& options, int64_t points);
  // x: the points of whole pictures.
  Tensor forward(NormedRows& x, const StepTensors& in) const;

 private:
  QKVParallelLinear qkv_;
  int64_t points_;
};

}  // namespace tandem
