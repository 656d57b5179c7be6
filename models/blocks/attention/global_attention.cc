#include "models/blocks/attention/global_attention.h"

namespace tandem {

GlobalAttention::GlobalAttention(const Weights& w, const Build& b, int64_t d_model,
                                 const AttentionOptions& o, const GlobalAttentionOptions& global)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias),
      global_(w / global.q, w / global.k, w / global.v, b.without_adapters(), d_model, o.heads,
              o.head_dim, o.bias) {}

Tensor GlobalAttention::forward(const Tensor& x, const StepTensors& in) const {
  const Tensor out = local(x, in);
  if (!in.global_rows.empty() && heads_.count() > 0) see_everything(x, in, out);
  return out_.forward(out);
}

// Of every token, also of global ones, whose rows are written over.
Tensor GlobalAttention::local(const Tensor& x, const StepTensors& in) const {
  const auto [q, k, v] = qkv_.forward(x);
  ops::RaggedAttentionArgs args = ragged(q, k, v, in);
  args.global_rows = in.global_rows;
  args.global_indptr = in.global_start_loc;
  ops::ragged_attention(build_.ctx, args);
  return args.out;
}

void GlobalAttention::see_everything(const Tensor& x, const StepTensors& in,
                                     const Tensor& out) const {
  const Tensor rows = build_.ctx.make({in.global_rows.dim(0), x.dim(1)});
  ops::gather_rows(build_.ctx, {x, in.global_rows, rows});
  const Tensor q = global_.forward_q(rows);
  const auto [k, v] = global_.forward_kv(x);
  ops::RaggedAttentionArgs args = ragged(q, k, v, in);
  args.indptr = in.global_start_loc;
  args.plan = in.global_plan();
  args.window = {};
  args.kv_ranges = in.encoder_ranges;
  ops::ragged_attention(build_.ctx, args);
  ops::scatter_rows(build_.ctx, {args.out, in.global_rows, out});
}

}  // namespace tandem
