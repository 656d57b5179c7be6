#include "models/blocks/pictures/clip_attention.h"

#include <vector>

namespace tandem {

OwnSequences own_sequences(Context& ctx, const Tensor& starts, int heads, int head_dim) {
  OwnSequences out;
  out.starts = starts;
  if (ctx.on_cpu()) return out;
  const Tensor rows = ctx.on_host(starts);
  std::vector<AttentionSequence> list;
  for (int64_t s = 0; s + 1 < rows.dim(0); ++s) {
    const int32_t begin = rows.data<int32_t>()[s], count = rows.data<int32_t>()[s + 1] - begin;
    list.push_back({begin, count, count, begin, /*causal=*/false});
  }
  out.planned = plan_own(ctx, list, heads, head_dim);
  return out;
}

ClipAttention::ClipAttention(const Weights& w, const Build& b, int64_t d_model,
                             const AttentionOptions& o)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias,
           o.kv_heads) {}

Tensor ClipAttention::forward(NormedRows& x, const OwnSequences& sequences) const {
  const auto [q, k, v] = qkv_.forward(x);
  const Tensor out = build_.ctx.make({q.dim(0), heads_.features().size()});
  ops::ragged_attention(build_.ctx, {.q = q,
                                     .k = k,
                                     .v = v,
                                     .indptr = sequences.starts,
                                     .num_heads = heads_.count(),
                                     .head_dim = heads_.head_dim,
                                     .scale = options_.scale,
                                     .out = out,
                                     .plan = sequences.plan(),
                                     .num_kv_heads = heads_.kv_count(),
                                     .soft_cap = options_.soft_cap,
                                     .window = options_.window,
                                     .in_16_bits = build_.dtype != DType::kF32});
  return out_.forward(out);
}

}  // namespace tandem
