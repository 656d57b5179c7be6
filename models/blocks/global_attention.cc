#include "models/blocks/global_attention.h"

namespace tandem {

GlobalAttention::GlobalAttention(const Weights& w, const Build& b, int64_t d_model,
                                 const AttentionOptions& o, const GlobalAttentionOptions& global)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias),
      global_(w / global.q, w / global.k, w / global.v, b, d_model, o.heads, o.head_dim, o.bias) {}

Tensor GlobalAttention::forward(const Tensor& x, const StepTensors& in) const {
  const Tensor out = local(x, in);
  if (!in.global_rows.empty() && heads_.count() > 0) see_everything(x, in, out);
  return out_.forward(out);
}

// Of every token, also of global ones, whose rows are written over.
Tensor GlobalAttention::local(const Tensor& x, const StepTensors& in) const {
  const auto [q, k, v] = qkv_.forward(x);
  const Tensor out = build_.ctx.make({x.dim(0), heads_.features().size()});
  ops::ragged_attention(build_.ctx, {.q = q,
                                     .k = k,
                                     .v = v,
                                     .indptr = in.encoder_start_loc,
                                     .num_heads = heads_.count(),
                                     .head_dim = heads_.head_dim,
                                     .scale = options_.scale,
                                     .out = out,
                                     .plan = in.encoder_plan(),
                                     .window = options_.window,
                                     .global_rows = in.global_rows,
                                     .global_indptr = in.global_start_loc});
  return out;
}

void GlobalAttention::see_everything(const Tensor& x, const StepTensors& in,
                                     const Tensor& out) const {
  const Tensor rows = build_.ctx.make({in.global_rows.dim(0), x.dim(1)});
  ops::gather_rows(build_.ctx, {x, in.global_rows, rows});
  const Tensor q = global_.forward_q(rows);
  const auto [k, v] = global_.forward_kv(x);
  const Tensor seen = build_.ctx.make({rows.dim(0), heads_.features().size()});
  ops::ragged_attention(build_.ctx, {.q = q,
                                     .k = k,
                                     .v = v,
                                     .indptr = in.global_start_loc,
                                     .num_heads = heads_.count(),
                                     .head_dim = heads_.head_dim,
                                     .scale = options_.scale,
                                     .out = seen,
                                     .plan = in.global_plan(),
                                     .kv_ranges = in.encoder_ranges});
  ops::scatter_rows(build_.ctx, {seen, in.global_rows, out});
}

}  // namespace tandem
