#include "models/blocks/pictures/box_attention.h"

namespace tandem {

BoxAttention::BoxAttention(const Weights& w, const Build& b, int64_t d_model,
                           const AttentionOptions& o, const BoxBiases& biases)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias),
      biases_(biases) {}

Tensor BoxAttention::forward(NormedRows& x, const StepTensors& in) const {
  const auto [q, k, v] = qkv_.forward(x);
  const Tensor out = build_.ctx.make({q.dim(0), heads_.features().size()});
  ops::box_attention(build_.ctx, {.q = q,
                                  .k = k,
                                  .v = v,
                                  .indptr = in.encoder_start_loc,
                                  .num_heads = heads_.count(),
                                  .head_dim = heads_.head_dim,
                                  .scale = options_.scale,
                                  .boxes = in.boxes,
                                  .bias = options_.position_bias,
                                  .across = biases_.across,
                                  .down = biases_.down,
                                  .out = out});
  return out_.forward(out);
}

}  // namespace tandem
