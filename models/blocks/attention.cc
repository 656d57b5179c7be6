#include "models/blocks/attention.h"

#include <cmath>
#include <string>

#include "base/error.h"

namespace tandem {
namespace {

const AttentionOptions& checked(const AttentionOptions& o, const std::string& where) {
  const char* missing = nullptr;
  if (o.kv_heads != 0 && o.kv_heads != o.heads) missing = "fewer heads of keys than of queries";
  if (o.window != 0) missing = "a window";
  if (o.soft_cap != 0) missing = "a soft cap";
  if (o.rotary) missing = "rotary positions";
  if (missing != nullptr)
    throw not_supported(where, std::string("attention with ") + missing + " is not supported");
  return o;
}

}  // namespace

AttentionOptions AttentionOptions::scaled(int heads, int head_dim) {
  AttentionOptions out;
  out.heads = heads;
  out.head_dim = head_dim;
  out.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  return out;
}

AttentionLayer::AttentionLayer(const Weights& w, const Build& b, int64_t d_model,
                               const AttentionOptions& options)
    : build_(b),
      options_(checked(options, w.scope())),
      heads_(b, options.heads, options.head_dim),
      out_(w / options.names.out, b, int64_t{options.heads} * options.head_dim, d_model,
           heads_.features(), options.bias) {}

Tensor AttentionLayer::paged(const Tensor& q, const Tensor& start_loc, const KvPages& pages,
                             const StepTensors::Pages& table, bool causal,
                             const ops::DeviceAttentionPlan* plan) const {
  const Tensor out = build_.ctx.make({q.dim(0), heads_.features().size()});
  ops::paged_attention(build_.ctx,
                       {q, pages, start_loc, table.indptr, table.page_indices, table.last_page_len,
                        heads_.count(), heads_.head_dim, options_.scale, causal, out, plan,
                        causal ? options_.position_bias : ops::PositionBias()});
  return out;
}

EncoderAttention::EncoderAttention(const Weights& w, const Build& b, int64_t d_model,
                                   const AttentionOptions& o)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias) {}

Tensor EncoderAttention::forward(const Tensor& x, const StepTensors& in) const {
  const auto [q, k, v] = qkv_.forward(x);
  const Tensor out = build_.ctx.make({x.dim(0), heads_.features().size()});
  ops::ragged_attention(
      build_.ctx, {q, k, v, in.encoder_start_loc, heads_.count(), heads_.head_dim, options_.scale,
                   out, in.encoder_plan(), options_.position_bias});
  return out_.forward(out);
}

DecoderSelfAttention::DecoderSelfAttention(const Weights& w, const Build& b, int64_t d_model,
                                           const AttentionOptions& o)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias) {}

Tensor DecoderSelfAttention::forward(const Tensor& x, const StepTensors& in,
                                     const KvPages& self_pages) const {
  const auto [q, k, v] = qkv_.forward(x);
  ops::write_kv(build_.ctx, {k, v, in.slot_mapping, self_pages});
  return out_.forward(
      paged(q, in.query_start_loc, self_pages, in.self_pages, /*causal=*/true, in.self_plan()));
}

CrossAttention::CrossAttention(const Weights& w, const Build& b, int64_t d_model,
                               const AttentionOptions& o)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias) {}

void CrossAttention::write_kv(const Tensor& encoder_states, const StepTensors& in,
                              const KvPages& cross_pages) const {
  const auto [k, v] = qkv_.forward_kv(encoder_states);
  ops::write_kv(build_.ctx, {k, v, in.cross_slot_mapping, cross_pages});
}

Tensor CrossAttention::forward(const Tensor& x, const StepTensors& in,
                               const KvPages& cross_pages) const {
  return out_.forward(paged(qkv_.forward_q(x), in.cross_query_start_loc, cross_pages,
                            in.cross_pages, /*causal=*/false, in.cross_plan()));
}

}  // namespace tandem
