#include "models/blocks/attention/attention.h"

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
  const Tensor out({(dims + 1) / 2}, DType::kF32);
  for (int i = 0; i < (dims + 1) / 2; ++i) {
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

ops::Rotary AttentionLayer::ready(const Tensor& q, const Tensor& k,
                                  const std::vector<Tensor>& angles) const {
  ready_cross_queries(q);
  if (k_norm_) k_norm_->norm_groups(k);
  if (!options_.rotary) return {};
  const ops::Rotary rotary{angles.at(static_cast<size_t>(*options_.rotary)),
                           options_.rotary_interleaved};
  ops::rotary(build_.ctx, {q, heads_.count(), heads_.head_dim, rotary});
  return rotary;
}

void AttentionLayer::ready_cross_queries(const Tensor& q) const {
  if (q_norm_) q_norm_->norm_groups(q);
}

void AttentionLayer::write_cross(const CrossAttentionQKVParallelLinear& qkv,
                                 const Tensor& encoder_states, const StepTensors& in,
                                 const KvPages& pages) const {
  const auto [k, v] = qkv.forward_kv(encoder_states);
  if (k_norm_) k_norm_->norm_groups(k);
  ops::write_kv(build_.ctx, {k, v, in.cross_slot_mapping, pages});
}

ops::RaggedAttentionArgs AttentionLayer::ragged(const Tensor& q, const Tensor& k, const Tensor& v,
                                                const StepTensors& in) const {
  return {.q = q,
          .k = k,
          .v = v,
          .indptr = in.encoder_start_loc,
          .num_heads = heads_.count(),
          .head_dim = heads_.head_dim,
          .scale = options_.scale,
          .out = build_.ctx.make({q.dim(0), heads_.features().size()}),
          .plan = in.encoder_plan(),
          .bias = options_.position_bias,
          .num_kv_heads = heads_.kv_count(),
          .soft_cap = options_.soft_cap,
          .window = options_.window};
}

ops::PagedAttentionArgs AttentionLayer::paged(const Tensor& q, const KvPages& pages,
                                              const StepTensors::Pages& table,
                                              const Tensor& log_sums) const {
  ops::PagedAttentionArgs args{};
  args.q = q;
  args.pages = pages;
  args.kv_indptr = table.indptr;
  args.kv_page_indices = table.page_indices;
  args.kv_last_page_len = table.last_page_len;
  args.num_heads = heads_.count();
  args.head_dim = heads_.head_dim;
  args.scale = options_.scale;
  args.out = build_.ctx.make({q.dim(0), heads_.features().size()});
  args.soft_cap = options_.soft_cap;
  args.log_sums = log_sums;
  return args;
}

Tensor AttentionLayer::over_self(const Tensor& q, const Tensor& k, const Tensor& v,
                                 const StepTensors& in, const KvPages& pages,
                                 const Tensor& log_sums) const {
  const ops::WriteKvArgs write{k, v, in.slot_mapping, pages, ready(q, k, in.angles)};
  ops::PagedAttentionArgs args = paged(q, pages, in.self_pages, log_sums);
  args.qo_indptr = in.query_start_loc;
  args.causal = true;
  args.plan = in.self_plan();
  args.bias = options_.position_bias;
  args.window_back = options_.window.back;
  args.write = &write;
  ops::paged_attention(build_.ctx, args);
  return args.out;
}

Tensor AttentionLayer::over_cross(const Tensor& q, const StepTensors& in, const KvPages& pages,
                                  const Tensor& log_sums) const {
  ops::PagedAttentionArgs args = paged(q, pages, in.cross_pages, log_sums);
  const Tensor out = args.out;
  const StepTensors::Streams& streams = in.streams;
  const int64_t tokens = streams.tokens > 0 ? streams.tokens : q.dim(0);
  const auto attend = [&](int64_t begin, int64_t end) {
    args.q = q.rows(begin, end);
    args.out = out.rows(begin, end);
    ops::paged_attention(build_.ctx, args);
  };
  args.qo_indptr = in.cross_query_start_loc;
  args.plan = in.cross_plan();
  attend(0, tokens);
  if (streams.tokens == 0) return out;
  attend(tokens, 2 * tokens);
  const StepTensors::Pages& table = streams.cross.pages;
  args.kv_indptr = table.indptr;
  args.kv_page_indices = table.page_indices;
  args.kv_last_page_len = table.last_page_len;
  args.qo_indptr = streams.cross.starts;
  args.plan = streams.cross.plan();
  for (int i = 0; i < streams.count; ++i)
    attend(2 * tokens + i * streams.rows, 2 * tokens + (i + 1) * streams.rows);
  return out;
}

void AttentionLayer::store_weights(const Tensor& q, const StepTensors& in,
                                   const KvPages& pages) const {
  TANDEM_CHECK_EQ(options_.soft_cap, 0.0f);
  for (const CrossWeights::Rows& rows : in.cross_weights->wanted) {
    for (size_t i = 0; i < rows.heads.size(); ++i) {
      if (rows.heads[i].layer != options_.layer) continue;
      const int64_t head = rows.heads[i].head - heads_.local.queries.begin;
      const bool here = head >= 0 && head < heads_.count();
      const auto from = static_cast<int64_t>(i) * rows.positions;
      const auto queries = [&] {
        return q.columns(head * heads_.head_dim, (head + 1) * heads_.head_dim)
            .rows(rows.first_row, rows.end_row);
      };
      ops::attention_weights(
          build_.ctx,
          {.q = here ? queries() : Tensor(),
           .pages = pages,
           .page_indices = in.cross_pages.page_indices.rows(rows.first_page, rows.end_page),
           .keys = rows.keys,
           .kv_head = here ? static_cast<int>(head * heads_.kv_count() / heads_.count()) : -1,
           .scale = options_.scale,
           .out = rows.out.columns(from, from + rows.positions)});
    }
  }
}

bool AttentionLayer::is_plain() const {
  return build_.comm.size() == 1 && !q_norm_ && !k_norm_ && !options_.rotary &&
         options_.soft_cap == 0.0f && options_.window.back == ops::Window::kAll &&
         heads_.kv_count() == heads_.count();
}

EncoderAttention::EncoderAttention(const Weights& w, const Build& b, int64_t d_model,
                                   const AttentionOptions& o)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias,
           o.kv_heads) {}

Tensor EncoderAttention::forward(NormedRows& x, const StepTensors& in) const {
  const auto [q, k, v] = qkv_.forward(x);
  const ops::Rotary rotary = ready(q, k, in.encoder_angles);
  if (options_.rotary) ops::rotary(build_.ctx, {k, heads_.kv_count(), heads_.head_dim, rotary});
  ops::RaggedAttentionArgs args = ragged(q, k, v, in);
  args.in_16_bits = build_.dtype != DType::kF32;
  ops::ragged_attention(build_.ctx, args);
  return out_.forward(args.out);
}

DecoderSelfAttention::DecoderSelfAttention(const Weights& w, const Build& b, int64_t d_model,
                                           const AttentionOptions& o)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias,
           o.kv_heads) {}

Tensor DecoderSelfAttention::forward(NormedRows& x, const StepTensors& in,
                                     const KvPages& self_pages) const {
  const auto [q, k, v] = qkv_.forward(x);
  return out_.forward(over_self(q, k, v, in, self_pages));
}

bool DecoderSelfAttention::describe(ops::DecoderLayerParts& parts, ops::DecoderShape& shape) const {
  const StepProduct qkv = qkv_.step_product(), out = out_.step_product();
  if (!is_plain() || !qkv || !out) return false;
  parts.qkv = *qkv;
  parts.self_out = *out;
  parts.bias = options_.position_bias;
  shape.num_heads = heads_.count();
  shape.head_dim = heads_.head_dim;
  shape.self_scale = options_.scale;
  return true;
}

CrossAttention::CrossAttention(const Weights& w, const Build& b, int64_t d_model,
                               const AttentionOptions& o)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias,
           o.kv_heads, o.kv_width) {}

Tensor CrossAttention::forward(NormedRows& x, const StepTensors& in,
                               const KvPages& cross_pages) const {
  const Tensor q = qkv_.forward_q(x);
  ready_cross_queries(q);
  if (in.cross_weights != nullptr) store_weights(q, in, cross_pages);
  return out_.forward(over_cross(q, in, cross_pages));
}

bool CrossAttention::describe(ops::DecoderLayerParts& parts, ops::DecoderShape& shape) const {
  const StepProduct q = qkv_.step_product_of_q(), out = out_.step_product();
  if (!is_plain() || !q || !out) return false;
  if (heads_.count() != shape.num_heads || heads_.head_dim != shape.head_dim) return false;
  parts.cross_q = *q;
  parts.cross_out = *out;
  shape.cross_scale = options_.scale;
  return true;
}

MergedAttention::MergedAttention(const Weights& w, const Build& b, int64_t d_model,
                                 const AttentionOptions& o)
    : AttentionLayer(w, b, d_model, o),
      qkv_(w / o.names.q, w / o.names.k, w / o.names.v, b, d_model, o.heads, o.head_dim, o.bias,
           o.kv_heads) {}

Tensor MergedAttention::forward(NormedRows& x, const StepTensors& in, const KvPages& pages) const {
  const Tensor q = qkv_.forward_q(x);
  const auto [k, v] = qkv_.forward_kv(x.rows());
  const auto sums = [&] { return build_.ctx.make({q.dim(0), heads_.count()}, DType::kF32); };
  const Tensor self_sums = sums(), cross_sums = sums();
  const Tensor self = over_self(q, k, v, in, pages, self_sums);
  const Tensor cross = over_cross(q, in, pages, cross_sums);
  ops::merge_attention(build_.ctx, {self, cross, self_sums, cross_sums, self});
  return out_.forward(self);
}

}  // namespace tandem
