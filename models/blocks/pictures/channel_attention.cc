#include "models/blocks/pictures/channel_attention.h"

namespace tandem {

ChannelAttention::ChannelAttention(const Weights& w, const Build& b, int64_t d_model,
                                   const AttentionOptions& o, int64_t points)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias),
      points_(points) {}

Tensor ChannelAttention::forward(NormedRows& x, const StepTensors&) const {
  const auto [q, k, v] = qkv_.forward(x);
  const Tensor out = build_.ctx.make({q.dim(0), heads_.features().size()});
  ops::channel_attention(build_.ctx, {q, k, v, points_, heads_.head_dim, options_.scale, out});
  return out_.forward(out);
}

}  // namespace tandem
