#include "models/blocks/attention.h"

namespace tandem {
namespace {

Tensor paged(const Build& b, const Tensor& q, const Tensor& start_loc, const KvPages& pages,
             const StepTensors::Pages& table, const Heads& heads, float scale, bool causal,
             const ops::DeviceAttentionPlan* plan) {
  const Tensor out = b.ctx.make({q.dim(0), heads.features().size()});
  ops::paged_attention(b.ctx,
                       {q, pages, start_loc, table.indptr, table.page_indices, table.last_page_len,
                        heads.count(), heads.head_dim, scale, causal, out, plan});
  return out;
}

}  // namespace

EncoderAttention::EncoderAttention(const Weights& w, const Build& b, int64_t d_model, int heads,
                                   int head_dim, float scale, const AttentionNames& names)
    : build_(b),
      heads_(b, heads, head_dim),
      scale_(scale),
      qkv_(w / names.q, w / names.k, w / names.v, b, d_model, heads, head_dim),
      out_(w / names.out, b, int64_t{heads} * head_dim, d_model, heads_.features()) {}

Tensor EncoderAttention::forward(const Tensor& x, const StepTensors& in) const {
  const auto [q, k, v] = qkv_.forward(x);
  const Tensor out = build_.ctx.make({x.dim(0), heads_.features().size()});
  ops::ragged_attention(build_.ctx, {q, k, v, in.encoder_start_loc, heads_.count(), heads_.head_dim,
                                     scale_, out, in.encoder_plan()});
  return out_.forward(out);
}

DecoderSelfAttention::DecoderSelfAttention(const Weights& w, const Build& b, int64_t d_model,
                                           int heads, int head_dim, float scale,
                                           const AttentionNames& names)
    : build_(b),
      heads_(b, heads, head_dim),
      scale_(scale),
      qkv_(w / names.q, w / names.k, w / names.v, b, d_model, heads, head_dim),
      out_(w / names.out, b, int64_t{heads} * head_dim, d_model, heads_.features()) {}

Tensor DecoderSelfAttention::forward(const Tensor& x, const StepTensors& in,
                                     const KvPages& self_pages) const {
  const auto [q, k, v] = qkv_.forward(x);
  ops::write_kv(build_.ctx, {k, v, in.slot_mapping, self_pages});
  return out_.forward(paged(build_, q, in.query_start_loc, self_pages, in.self_pages, heads_,
                            scale_, /*causal=*/true, in.self_plan()));
}

CrossAttention::CrossAttention(const Weights& w, const Build& b, int64_t d_model, int heads,
                               int head_dim, float scale, const AttentionNames& names)
    : build_(b),
      heads_(b, heads, head_dim),
      scale_(scale),
      qkv_(w / names.q, w / names.k, w / names.v, b, d_model, heads, head_dim),
      out_(w / names.out, b, int64_t{heads} * head_dim, d_model, heads_.features()) {}

void CrossAttention::write_kv(const Tensor& encoder_states, const StepTensors& in,
                              const KvPages& cross_pages) const {
  const auto [k, v] = qkv_.forward_kv(encoder_states);
  ops::write_kv(build_.ctx, {k, v, in.cross_slot_mapping, cross_pages});
}

Tensor CrossAttention::forward(const Tensor& x, const StepTensors& in,
                               const KvPages& cross_pages) const {
  return out_.forward(paged(build_, qkv_.forward_q(x), in.cross_query_start_loc, cross_pages,
                            in.cross_pages, heads_, scale_, /*causal=*/false, in.cross_plan()));
}

}  // namespace tandem
