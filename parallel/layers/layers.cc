#include "parallel/layers/layers.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "kernels/sound_ops.h"

namespace tandem {
namespace {

// Rows [rows) and columns [columns) of a matrix as it lies in the file.
MatrixView view_of(const HostTensor& t, Range rows, Range columns) {
  TANDEM_CHECK_EQ(t.shape.size(), size_t{2});
  const auto offset = static_cast<size_t>(rows.begin * t.shape[1] + columns.begin);
  return {t.data + offset * size_of(t.dtype), t.dtype, rows.size(), columns.size(), t.shape[1]};
}

Range all_of(int64_t n) { return {0, n}; }

// y = act(y). The product that it belongs to would do the same with each value.
void activate(Context& ctx, const Tensor& y, Activation activation) {
  if (activation == Activation::kNone) return;
  if (!ctx.on_cpu()) return ops::apply_activation(ctx, {y, activation});
  const Tensor ones = ctx.make({y.dim(0), y.dim(1)}, DType::kF32);
  std::fill_n(ones.data<float>(), ones.size(), 1.0f);
  ops::gated_activation(ctx, {y, ones, activation, y});
}

// act(W x + b) with what adapters change in it, which comes before the activation.
Tensor multiply(NormedRows& x, const Build& b, const PackedWeight& weight, const Tensor& bias,
                Activation activation, const LinearAdapters* adapters) {
  if (adapters == nullptr || !adapters->changes()) return x.multiply(b, weight, bias, activation);
  const Tensor y = x.multiply(b, weight, bias, Activation::kNone);
  adapters->apply(x.rows(), y);
  activate(b.ctx, y, activation);
  return y;
}

std::optional<HostTensor> find_bias(const Weights& w, int64_t out, Bias bias) {
  if (bias == Bias::kNone) return std::nullopt;
  return bias == Bias::kRequired ? w.get("bias", {out}) : w.find("bias", {out});
}

// Row ranges of several projections, stacked into one weight and one bias.
struct Projection {
  Weights scope;
  int64_t out;
  Range rows;
};
struct Stacked {
  PackedWeight weight;
  Tensor bias;
  std::shared_ptr<LinearAdapters> adapters;
};
std::shared_ptr<LinearAdapters> adapters_of(std::span<const Projection> projections, int64_t in,
                                            const Build& b, const Stacked& base) {
  if (b.adapters == nullptr) return nullptr;
  std::vector<AdaptedPart> parts;
  for (const auto& [w, out, rows] : projections)
    parts.push_back({w.scope(), out, in, rows, all_of(in)});
  return adapt_linear(b, std::move(parts), {base.weight, base.bias});
}

// The weight and the bias alone.
Stacked stack_weights(std::span<const Projection> projections, const Build& b, int64_t in,
                      Bias has_bias) {
  std::vector<HostTensor> tensors;
  std::vector<MatrixView> parts;
  std::vector<Tensor> biases;
  bool any_bias = false;
  int64_t features = 0;
  for (const auto& [w, out, rows] : projections) {
    tensors.push_back(w.get("weight", {out, in}));
    parts.push_back(view_of(tensors.back(), rows, all_of(in)));
    const auto bias = find_bias(w, out, has_bias);
    biases.push_back(bias ? to_float(*bias, rows.begin, rows.size()) : Tensor());
    any_bias = any_bias || bias;
    features += rows.size();
  }
  Stacked stacked{PackedWeight(b.ctx, parts, b.dtype, b.quantization), {}, {}};
  if (!any_bias) return stacked;
  const Tensor all({features}, DType::kF32);
  std::memset(all.raw(), 0, all.bytes());
  float* to = all.data<float>();
  for (size_t i = 0; i < biases.size(); ++i) {
    if (!biases[i].empty()) std::memcpy(to, biases[i].raw(), biases[i].bytes());
    to += projections[i].rows.size();
  }
  stacked.bias = b.ctx.resident_bias(all, b.ctx.activations());
  return stacked;
}

Stacked stack(std::span<const Projection> projections, const Build& b, int64_t in, Bias has_bias) {
  Stacked out = stack_weights(projections, b, in, has_bias);
  out.adapters = adapters_of(projections, in, b, out);
  return out;
}

// Projections of queries and of keys or values, to the heads of this rank.
struct HeadProjections {
  HeadProjections(const Build& b, int heads, int head_dim, int kv_heads)
      : heads(heads),
        kv_heads(kv_heads > 0 ? kv_heads : heads),
        head_dim(head_dim),
        shard(shard_heads(heads, this->kv_heads, b.comm.rank(), b.comm.size())) {}
  Projection of_queries(const Weights& w) const { return {w, heads * head_dim, q_rows()}; }
  Projection of_keys(const Weights& w) const { return {w, kv_heads * head_dim, kv_rows()}; }
  Range q_rows() const { return shard.queries * head_dim; }
  Range kv_rows() const { return shard.keys * head_dim; }

  int64_t heads, kv_heads, head_dim;
  HeadShard shard;
};

}  // namespace

// --- Linear layers -------------------------------------------------------------------------------

ColumnParallelLinear::ColumnParallelLinear(const Weights& w, const Build& b, int64_t in,
                                           int64_t out, Activation activation, Bias bias)
    : build_(b), activation_(activation) {
  const Projection all{w, out, shard_range(out, b.comm.rank(), b.comm.size())};
  Stacked s = stack({&all, 1}, b, in, bias);
  weight_ = std::move(s.weight);
  bias_ = std::move(s.bias);
  adapters_ = std::move(s.adapters);
}

Tensor ColumnParallelLinear::forward(NormedRows& x) const {
  return multiply(x, build_, weight_, bias_, activation_, adapters_.get());
}

GatedParallelLinear::GatedParallelLinear(const Weights& gate, const Weights& up, const Build& b,
                                         int64_t in, int64_t out, Activation activation, Bias bias)
    : build_(b), activation_(activation) {
  const Range rows = shard_range(out, b.comm.rank(), b.comm.size());
  const Projection both[] = {{gate, out, rows}, {up, out, rows}};
  Stacked s = stack(both, b, in, bias);
  width_ = rows.size();
  weight_ = std::move(s.weight);
  bias_ = std::move(s.bias);
  adapters_ = std::move(s.adapters);
}

Tensor GatedParallelLinear::forward(NormedRows& x) const {
  const Tensor y = multiply(x, build_, weight_, bias_, Activation::kNone, adapters_.get());
  const Tensor gate = y.columns(0, width_);
  ops::gated_activation(build_.ctx, {gate, y.columns(width_, 2 * width_), activation_, gate});
  return gate;
}

RowParallelLinear::RowParallelLinear(const Weights& w, const Build& b, int64_t in, int64_t out,
                                     Range part, Bias has_bias)
    : build_(b) {
  const HostTensor t = w.get("weight", {out, in});
  const MatrixView view = view_of(t, all_of(out), part);
  weight_ = PackedWeight(b.ctx, {&view, 1}, b.dtype, b.quantization);
  const auto bias = find_bias(w, out, has_bias);
  if (bias && b.comm.rank() == 0) bias_ = b.ctx.resident_bias(to_float(*bias), b.ctx.activations());
  adapters_ = adapt_linear(b, {{w.scope(), out, in, all_of(out), part}},
                           {weight_, bias_, 1.0f, /*sums_over_ranks=*/true});
}

Tensor RowParallelLinear::forward(const Tensor& x) const {
  const Tensor out = build_.ctx.make({x.dim(0), weight_.out_features()});
  write_part(x, out);
  sum_parts(out);
  return out;
}

void RowParallelLinear::write_part(const Tensor& x, const Tensor& out) const {
  ops::linear(build_.ctx, {&weight_, x, bias_, Activation::kNone, out});
  if (adapters_ != nullptr && adapters_->changes()) adapters_->apply(x, out);
}

QKVParallelLinear::QKVParallelLinear(const Weights& q, const Weights& k, const Weights& v,
                                     const Build& b, int64_t in, int heads, int head_dim, Bias bias,
                                     int kv_heads)
    : build_(b) {
  const HeadProjections of(b, heads, head_dim, kv_heads);
  const Projection all[] = {of.of_queries(q), of.of_keys(k), of.of_keys(v)};
  Stacked s = stack(all, b, in, bias);
  q_width_ = of.q_rows().size();
  kv_width_ = of.kv_rows().size();
  weight_ = std::move(s.weight);
  bias_ = std::move(s.bias);
  adapters_ = std::move(s.adapters);
}

QKVParallelLinear::Output QKVParallelLinear::forward(NormedRows& x) const {
  return parts_of(multiply(x, build_, weight_, bias_, Activation::kNone, adapters_.get()));
}

QKVParallelLinear::Output QKVParallelLinear::parts_of(const Tensor& y) const {
  const int64_t values = q_width_ + kv_width_;
  return {y.columns(0, q_width_), y.columns(q_width_, values),
          y.columns(values, values + kv_width_)};
}

QKVParallelLinear::Output QKVParallelLinear::of_zeros() const {
  const int64_t width = q_width_ + 2 * kv_width_;
  if (!bias_.empty()) return parts_of(bias_.reshape({1, width}));
  const Tensor none({width}, DType::kF32);
  std::memset(none.raw(), 0, none.bytes());
  return parts_of(build_.ctx.resident_bias(none, build_.ctx.activations()).reshape({1, width}));
}

CrossAttentionQKVParallelLinear::CrossAttentionQKVParallelLinear(const Weights& q, const Weights& k,
                                                                 const Weights& v, const Build& b,
                                                                 int64_t in, int heads,
                                                                 int head_dim, Bias bias,
                                                                 int kv_heads, int64_t kv_in)
    : build_(b) {
  const HeadProjections of(b, heads, head_dim, kv_heads);
  const Projection queries = of.of_queries(q), kv[] = {of.of_keys(k), of.of_keys(v)};
  Stacked of_q = stack({&queries, 1}, b, in, bias);
  Stacked of_kv = stack(kv, b.of_many_rows(), kv_in > 0 ? kv_in : in, bias);
  kv_width_ = of.kv_rows().size();
  q_weight_ = std::move(of_q.weight);
  q_bias_ = std::move(of_q.bias);
  q_adapters_ = std::move(of_q.adapters);
  kv_weight_ = std::move(of_kv.weight);
  kv_bias_ = std::move(of_kv.bias);
  kv_adapters_ = std::move(of_kv.adapters);
}

Tensor CrossAttentionQKVParallelLinear::forward_q(NormedRows& decoder_states) const {
  return multiply(decoder_states, build_, q_weight_, q_bias_, Activation::kNone, q_adapters_.get());
}

CrossAttentionQKVParallelLinear::KeyValue CrossAttentionQKVParallelLinear::forward_kv(
    const Tensor& encoder_states) const {
  NormedRows rows(encoder_states);
  const Tensor y =
      multiply(rows, build_, kv_weight_, kv_bias_, Activation::kNone, kv_adapters_.get());
  return {y.columns(0, kv_width_), y.columns(kv_width_, 2 * kv_width_)};
}

}  // namespace tandem
