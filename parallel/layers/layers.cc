#include "parallel/layers/layers.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace tandem {
namespace {

// Rows [rows) and columns [columns) of a matrix as it lies in the file.
MatrixView view_of(const HostTensor& t, Range rows, Range columns) {
  TANDEM_CHECK_EQ(t.shape.size(), size_t{2});
  const auto offset = static_cast<size_t>(rows.begin * t.shape[1] + columns.begin);
  return {t.data + offset * size_of(t.dtype), t.dtype, rows.size(), columns.size(), t.shape[1]};
}

Range all_of(int64_t n) { return {0, n}; }

Tensor run_linear(const Build& b, const PackedWeight& weight, const Tensor& bias, const Tensor& x,
                  Activation activation = Activation::kNone) {
  return NormedRows(x).multiply(b, weight, bias, activation);
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
};
Stacked stack(std::span<const Projection> projections, const Build& b, int64_t in, Bias has_bias) {
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
  Stacked stacked{PackedWeight(b.ctx, parts, b.dtype, b.quantization), {}};
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
}

Tensor ColumnParallelLinear::forward(NormedRows& x) const {
  return x.multiply(build_, weight_, bias_, activation_);
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
}

Tensor GatedParallelLinear::forward(NormedRows& x) const {
  const Tensor y = x.multiply(build_, weight_, bias_, Activation::kNone);
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
}

Tensor RowParallelLinear::forward(const Tensor& x) const {
  const Tensor out = build_.ctx.make({x.dim(0), weight_.out_features()});
  write_part(x, out);
  sum_parts(out);
  return out;
}

void RowParallelLinear::write_part(const Tensor& x, const Tensor& out) const {
  ops::linear(build_.ctx, {&weight_, x, bias_, Activation::kNone, out});
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
}

QKVParallelLinear::Output QKVParallelLinear::forward(NormedRows& x) const {
  return parts_of(x.multiply(build_, weight_, bias_, Activation::kNone));
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
  kv_weight_ = std::move(of_kv.weight);
  kv_bias_ = std::move(of_kv.bias);
}

Tensor CrossAttentionQKVParallelLinear::forward_q(NormedRows& decoder_states) const {
  return decoder_states.multiply(build_, q_weight_, q_bias_, Activation::kNone);
}

CrossAttentionQKVParallelLinear::KeyValue CrossAttentionQKVParallelLinear::forward_kv(
    const Tensor& encoder_states) const {
  const Tensor y = run_linear(build_, kv_weight_, kv_bias_, encoder_states);
  return {y.columns(0, kv_width_), y.columns(kv_width_, 2 * kv_width_)};
}

// --- Embeddings ----------------------------------------------------------------------------------

Tensor table_of(const HostTensor& t) {
  const bool aligned = reinterpret_cast<uintptr_t>(t.data) % size_of(t.dtype) == 0;
  if (aligned && (t.dtype == DType::kF32 || t.dtype == DType::kBF16))
    return Tensor::borrow(const_cast<std::byte*>(t.data), t.shape, t.dtype);
  return to_float(t).reshape(t.shape);
}

VocabParallelEmbedding::VocabParallelEmbedding(const HostTensor& tokens, const Build& b,
                                               float scale)
    : build_(b),
      keep_alive_(tokens.keep_alive),
      ids_(shard_range(tokens.shape[0], b.comm.rank(), b.comm.size())),
      scale_(scale) {
  HostTensor part = tokens;
  part.data += static_cast<size_t>(ids_.begin * tokens.shape[1]) * size_of(tokens.dtype);
  part.shape[0] = ids_.size();
  table_ = b.ctx.resident(table_of(part));
}

Tensor VocabParallelEmbedding::forward(const Tensor& ids, const Tensor& position_ids,
                                       const Tensor& positions, int position_offset,
                                       const Norm* norm) const {
  const bool sharded = build_.comm.size() > 1;
  // Positions are added on one rank only, so that the sum over ranks holds them once.
  const Tensor used = sharded && build_.comm.rank() != 0 ? Tensor() : positions;
  const Tensor out = build_.ctx.make({ids.dim(0), table_.dim(1)});
  ops::EmbeddingArgs args{
      ids, position_ids, table_, used, scale_, position_offset, static_cast<int32_t>(ids_.begin),
      out};
  const bool fused = norm != nullptr && !sharded && norm->kind() == NormKind::kLayer;
  if (fused) {
    args.norm_weight = norm->weight();
    args.norm_bias = norm->bias();
    args.norm_eps = norm->eps();
  }
  ops::embedding(build_.ctx, args);
  if (sharded) build_.comm.all_reduce(out);  // of sums, before their norm
  return norm != nullptr && !fused ? norm->forward(out) : out;
}

ParallelLMHead::ParallelLMHead(const HostTensor& weight, const Tensor& bias, const Build& b,
                               float scale, float soft_cap)
    : build_(b), vocabulary_(weight.shape[0]), soft_cap_(soft_cap) {
  const Range rows = shard_range(vocabulary_, b.comm.rank(), b.comm.size());
  const int64_t features = weight.shape[1];
  MatrixView view = view_of(weight, rows, all_of(features));
  Tensor scaled;
  if (scale != 1.0f) {
    scaled = to_float(weight, rows.begin * features, rows.size() * features);
    for (int64_t i = 0; i < scaled.size(); ++i) scaled.data<float>()[i] *= scale;
    view = {scaled.raw(), DType::kF32, rows.size(), features, features};
  }
  weight_ = PackedWeight(b.ctx, {&view, 1}, b.dtype);
  if (!bias.empty()) {
    bias_ = b.ctx.resident(bias.reshape({vocabulary_}).rows(rows.begin, rows.end));
  }
}

Tensor ParallelLMHead::forward_shard(const Tensor& x) const {
  // On a device rows begin at multiples of 32 bytes: most vocabularies are no multiple of anything,
  // and cuBLASLt has its fast algorithms for results that are aligned.
  const int64_t ids = weight_.out_features(), step = build_.ctx.on_cpu() ? 1 : 8;
  const Tensor rows = build_.ctx.make({x.dim(0), (ids + step - 1) / step * step}, DType::kF32);
  const Tensor out = rows.columns(0, ids);
  ops::linear(build_.ctx, {&weight_, x, bias_, Activation::kNone, out});
  if (soft_cap_ > 0) ops::soft_cap(build_.ctx, {out, soft_cap_});
  return out;
}

Tensor ParallelLMHead::forward(const Tensor& x) const {
  return gather_vocabulary(build_, forward_shard(x), vocabulary_);
}

bool ParallelLMHead::takes_best(int64_t rows) const {
  if (build_.comm.size() > 1 || soft_cap_ != 0 || weight_.out_features() == 0) return false;
  const DeviceBackend* backend = build_.ctx.backend_or_null();
  return backend == nullptr || rows <= backend->most_best_rows(weight_);
}

void ParallelLMHead::take_best(const Tensor& x, ops::LinearBestArgs args) const {
  args.weight = &weight_;
  args.x = x;
  args.bias = bias_;
  ops::linear_best(build_.ctx, args);
}

namespace {

// Rows of a matrix to those of another, on one device.
void copy_rows(Context& ctx, const Tensor& from, const Tensor& to) {
  if (!ctx.on_cpu()) return ctx.backend().copy_matrix(from, to);
  for (int64_t i = 0; i < from.dim(0); ++i)
    std::memcpy(to.row<float>(i), from.row<float>(i), static_cast<size_t>(from.dim(1)) * 4);
}

}  // namespace

Tensor gather_vocabulary(const Build& b, const Tensor& shard, int64_t vocabulary) {
  const int ranks = b.comm.size();
  const int64_t rows = shard.dim(0);
  TANDEM_CHECK_EQ(shard.dim(1), shard_range(vocabulary, b.comm.rank(), ranks).size());
  if (ranks == 1) return shard;
  // Equal parts for the gather (the last columns of a narrower shard are not used).
  const int64_t widest = shard_range(vocabulary, 0, ranks).size();
  Tensor part = shard;
  const Tensor all = b.ctx.make({ranks * rows, widest}, DType::kF32);
  if (shard.dim(1) != widest || !shard.contiguous()) {
    part = b.ctx.make({rows, widest}, DType::kF32);
    copy_rows(b.ctx, shard, part.columns(0, shard.dim(1)));
  }
  b.comm.all_gather(part, all);
  const Tensor out = b.ctx.make({rows, vocabulary}, DType::kF32);
  for (int r = 0; r < ranks; ++r) {
    const Range ids = shard_range(vocabulary, r, ranks);
    copy_rows(b.ctx, all.rows(r * rows, (r + 1) * rows).columns(0, ids.size()),
              out.columns(ids.begin, ids.end));
  }
  return out;
}

Tensor gather_vocabulary_of_rows(Communicator& comm, const Tensor& shard, int64_t vocabulary,
                                 std::span<const int64_t> rows, std::span<const int> owners) {
  TANDEM_CHECK_EQ(rows.size(), owners.size());
  const int ranks = comm.size();
  std::vector<int64_t> counts(static_cast<size_t>(ranks));
  for (const int owner : owners) ++counts[static_cast<size_t>(owner)];
  // Every rank gets as many rows as the one that gets most, each as wide as the widest shard; what
  // is too much is not read.
  const int64_t most = *std::max_element(counts.begin(), counts.end());
  const int64_t widest = shard_range(vocabulary, 0, ranks).size();
  Tensor part({ranks * most, widest}, DType::kF32), all({ranks * most, widest}, DType::kF32);
  std::vector<int64_t> next(static_cast<size_t>(ranks));
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t to = owners[i] * most + next[static_cast<size_t>(owners[i])]++;
    std::memcpy(part.row<float>(to), shard.row<float>(rows[i]),
                static_cast<size_t>(shard.dim(1)) * sizeof(float));
  }
  comm.all_to_all(part, all);
  Tensor out({counts[static_cast<size_t>(comm.rank())], vocabulary}, DType::kF32);
  for (int r = 0; r < ranks; ++r) {
    const Range ids = shard_range(vocabulary, r, ranks);
    for (int64_t i = 0; i < out.dim(0); ++i)
      std::memcpy(out.row<float>(i) + ids.begin, all.row<float>(r * most + i),
                  static_cast<size_t>(ids.size()) * sizeof(float));
  }
  return out;
}

}  // namespace tandem
