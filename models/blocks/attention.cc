#include "models/blocks/attention.h"

#include <cmath>

namespace tandem {
namespace {

std::optional<Norm> norm_of(const Weights& w, const char* name, const Build& b,
                            const AttentionOptions& o) {
  if (name == nullptr) return std::nullopt;
  return Norm(w / name, b, o.head_dim, o.eps, o.head_norms);
}

}  // namespace

AttentionOptions AttentionOptions::scaled(int heads, int head_dim) {
  AttentionOptions out;
  out.heads = heads;
  out.head_dim = head_dim;
  out.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  return out;
}

Tensor rotary_frequencies(int dims, float theta, float factor) {
  const Tensor out({dims / 2}, DType::kF32);
  for (int i = 0; i < dims / 2; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(dims);
    out.data<float>()[i] = 1.0f / std::pow(theta, exponent) / factor;
  }
  return out;
}

AttentionLayer::AttentionLayer(const Weights& w, const Build& b, int64_t d_model,
                               const AttentionOptions& options)
    : build_(b),
      options_(options),
      heads_(b, options.heads, options.head_dim, options.kv_heads),
      out_(w / options.names.out, b, int64_t{options.heads} * options.head_dim, d_model,
           heads_.features(), options.bias),
      q_norm_(norm_of(w, options.names.q_norm, b, options)),
      k_norm_(norm_of(w, options.names.k_norm, b, options)) {}

void AttentionLayer::norm_queries(const Tensor& q) const {
  if (q_norm_) q_norm_->norm_groups(q);
}

void AttentionLayer::norm_keys(const Tensor& k) const {
  if (k_norm_) k_norm_->norm_groups(k);
}

ops::Rotary AttentionLayer::rotary_of(const std::vector<Tensor>& angles) const {
  if (!options_.rotary) return {};
  return {angles.at(static_cast<size_t>(*options_.rotary)), options_.rotary_interleaved};
}

void AttentionLayer::turn(const Tensor& x, int heads, const ops::Rotary& rotary) const {
  if (rotary.angles.empty()) return;
  ops::rotary(build_.ctx, {x, heads, heads_.head_dim, rotary});
}

Tensor AttentionLayer::over_self(const Tensor& q, const StepTensors& in, const KvPages& pages,
                                 const Tensor& log_sums) const {
  const Tensor out = build_.ctx.make({q.dim(0), heads_.features().size()});
  const StepTensors::Pages& table = in.self_pages;
  ops::paged_attention(
      build_.ctx,
      {q, pages, in.query_start_loc, table.indptr, table.page_indices, table.last_page_len,
       heads_.count(), heads_.head_dim, options_.scale, /*causal=*/true, out, in.self_plan(),
       options_.position_bias, options_.soft_cap, options_.window.back, log_sums});
  return out;
}

Tensor AttentionLayer::over_cross(const Tensor& q, const StepTensors& in, const KvPages& pages,
                                  const Tensor& log_sums) const {
  const Tensor out = build_.ctx.make({q.dim(0), heads_.features().size()});
  const StepTensors::Pages& table = in.cross_pages;
  ops::paged_attention(build_.ctx, {q,
                                    pages,
                                    in.cross_query_start_loc,
                                    table.indptr,
                                    table.page_indices,
                                    table.last_page_len,
                                    heads_.count(),
                                    heads_.head_dim,
                                    options_.scale,
                                    /*causal=*/false,
                                    out,
                                    in.cross_plan(),
                                    {},
                                    options_.soft_cap,
                                    ops::Window::kAll,
                                    log_sums});
  return out;
}

EncoderAttention::EncoderAttention(const Weights& w, const Build& b, int64_t d_model,
                                   const AttentionOptions& o)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias,
           o.kv_heads) {}

Tensor EncoderAttention::forward(const Tensor& x, const StepTensors& in) const {
  const auto [q, k, v] = qkv_.forward(x);
  norm_queries(q);
  norm_keys(k);
  const ops::Rotary rotary = rotary_of(in.encoder_angles);
  turn(q, heads_.count(), rotary);
  turn(k, heads_.kv_count(), rotary);
  const Tensor out = build_.ctx.make({x.dim(0), heads_.features().size()});
  ops::ragged_attention(build_.ctx, {q, k, v, in.encoder_start_loc, heads_.count(), heads_.head_dim,
                                     options_.scale, out, in.encoder_plan(), options_.position_bias,
                                     heads_.kv_count(), options_.soft_cap, options_.window});
  return out_.forward(out);
}

DecoderSelfAttention::DecoderSelfAttention(const Weights& w, const Build& b, int64_t d_model,
                                           const AttentionOptions& o)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias,
           o.kv_heads) {}

Tensor DecoderSelfAttention::forward(const Tensor& x, const StepTensors& in,
                                     const KvPages& self_pages) const {
  const auto [q, k, v] = qkv_.forward(x);
  norm_queries(q);
  norm_keys(k);
  const ops::Rotary rotary = rotary_of(in.angles);
  turn(q, heads_.count(), rotary);
  ops::write_kv(build_.ctx, {k, v, in.slot_mapping, self_pages, rotary});
  return out_.forward(over_self(q, in, self_pages));
}

CrossAttention::CrossAttention(const Weights& w, const Build& b, int64_t d_model,
                               const AttentionOptions& o)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias,
           o.kv_heads, o.kv_width) {}

void CrossAttention::write_kv(const Tensor& encoder_states, const StepTensors& in,
                              const KvPages& cross_pages) const {
  const auto [k, v] = qkv_.forward_kv(encoder_states);
  norm_keys(k);
  ops::write_kv(build_.ctx, {k, v, in.cross_slot_mapping, cross_pages});
}

Tensor CrossAttention::forward(const Tensor& x, const StepTensors& in,
                               const KvPages& cross_pages) const {
  const Tensor q = qkv_.forward_q(x);
  norm_queries(q);
  return out_.forward(over_cross(q, in, cross_pages));
}

MergedAttention::MergedAttention(const Weights& w, const Build& b, int64_t d_model,
                                 const AttentionOptions& o)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias,
           o.kv_heads) {}

void MergedAttention::write_kv(const Tensor& encoder_states, const StepTensors& in,
                               const KvPages& cross_pages) const {
  const auto [k, v] = qkv_.forward_kv(encoder_states);
  norm_keys(k);
  ops::write_kv(build_.ctx, {k, v, in.cross_slot_mapping, cross_pages});
}

Tensor MergedAttention::forward(const Tensor& x, const StepTensors& in,
                                const KvPages& pages) const {
  const Tensor q = qkv_.forward_q(x);
  const auto [k, v] = qkv_.forward_kv(x);
  norm_queries(q);
  norm_keys(k);
  const ops::Rotary rotary = rotary_of(in.angles);
  turn(q, heads_.count(), rotary);
  ops::write_kv(build_.ctx, {k, v, in.slot_mapping, pages, rotary});
  const auto sums = [&] { return build_.ctx.make({x.dim(0), heads_.count()}, DType::kF32); };
  const Tensor self_sums = sums(), cross_sums = sums();
  const Tensor self = over_self(q, in, pages, self_sums);
  const Tensor cross = over_cross(q, in, pages, cross_sums);
  ops::merge_attention(build_.ctx, {self, cross, self_sums, cross_sums, self});
  return out_.forward(self);
}

}  // namespace tandem
