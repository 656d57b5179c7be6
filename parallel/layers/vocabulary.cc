// The layers at both ends of a model: embeddings and the language model's head (layers.h).
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "parallel/layers/layers.h"

namespace tandem {

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
      vocabulary_(tokens.shape[0]),
      ids_(shard_range(tokens.shape[0], b.comm.rank(), b.comm.size())),
      scale_(scale) {
  HostTensor part = tokens;
  part.data += static_cast<size_t>(ids_.begin * tokens.shape[1]) * size_of(tokens.dtype);
  part.shape[0] = ids_.size();
  table_ = b.ctx.resident(table_of(part));
}

void VocabParallelEmbedding::adapt(const std::string& module) {
  if (build_.adapters == nullptr) return;
  adapters_ = std::make_shared<TableAdapters>(build_, module, vocabulary_, table_.dim(1), scale_);
  build_.adapters->add(adapters_);
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
  const bool changes = adapters_ != nullptr && adapters_->changes();
  const bool fused = norm != nullptr && !sharded && !changes && norm->kind() == NormKind::kLayer;
  if (fused) {
    args.norm_weight = norm->weight();
    args.norm_bias = norm->bias();
    args.norm_eps = norm->eps();
  }
  ops::embedding(build_.ctx, args);
  if (changes) adapters_->apply(args);
  if (sharded) build_.comm.all_reduce(out);  // of sums, before their norm
  return norm != nullptr && !fused ? norm->forward(out) : out;
}

ParallelLMHead::ParallelLMHead(const HostTensor& weight, const Tensor& bias, const Build& b,
                               float scale, float soft_cap)
    : build_(b),
      vocabulary_(weight.shape[0]),
      ids_(shard_range(weight.shape[0], b.comm.rank(), b.comm.size())),
      scale_(scale),
      soft_cap_(soft_cap) {
  const int64_t features = weight.shape[1];
  MatrixView view{weight.data + static_cast<size_t>(ids_.begin * features) * size_of(weight.dtype),
                  weight.dtype, ids_.size(), features, features};
  Tensor scaled;
  if (scale != 1.0f) {
    scaled = to_float(weight, ids_.begin * features, ids_.size() * features);
    for (int64_t i = 0; i < scaled.size(); ++i) scaled.data<float>()[i] *= scale;
    view = {scaled.raw(), DType::kF32, ids_.size(), features, features};
  }
  weight_ = PackedWeight(b.ctx, {&view, 1}, b.dtype);
  if (!bias.empty()) {
    bias_ = b.ctx.resident(bias.reshape({vocabulary_}).rows(ids_.begin, ids_.end));
  }
}

void ParallelLMHead::adapt(const std::string& module) {
  const int64_t features = weight_.in_features();
  adapters_ =
      adapt_linear(build_, {{module, vocabulary_, features, ids_, {0, features}}},
                   {weight_, bias_, scale_, /*sums_over_ranks=*/false, /*f32_results=*/true});
}

Tensor ParallelLMHead::forward_shard(const Tensor& x) const {
  // On a device rows begin at multiples of 32 bytes: most vocabularies are no multiple of anything,
  // and cuBLASLt has its fast algorithms for results that are aligned.
  const int64_t ids = weight_.out_features(), step = build_.ctx.on_cpu() ? 1 : 8;
  const Tensor rows = build_.ctx.make({x.dim(0), (ids + step - 1) / step * step}, DType::kF32);
  const Tensor out = rows.columns(0, ids);
  ops::linear(build_.ctx, {&weight_, x, bias_, Activation::kNone, out});
  if (adapters_ != nullptr && adapters_->changes()) adapters_->apply(x, out);
  if (soft_cap_ > 0) ops::soft_cap(build_.ctx, {out, soft_cap_});
  return out;
}

Tensor ParallelLMHead::forward(const Tensor& x) const {
  return gather_vocabulary(build_, forward_shard(x), vocabulary_);
}

bool ParallelLMHead::takes_best(int64_t rows) const {
  if (vocabulary_ < build_.comm.size()) return false;  // a rank has no ids
  if (adapters_ != nullptr && adapters_->changes()) return false;
  const DeviceBackend* backend = build_.ctx.backend_or_null();
  if (backend == nullptr) return build_.comm.size() == 1;
  return rows <= most_best_rows(*backend);
}

// Of the rank that takes the fewest: devices may differ, and all ranks must make the same calls.
int32_t ParallelLMHead::most_best_rows(const DeviceBackend& backend) const {
  if (most_best_rows_) return *most_best_rows_;
  const std::vector<int32_t> own{backend.most_best_rows(weight_)};
  std::vector<int32_t> all(static_cast<size_t>(build_.comm.size()), own[0]);
  if (all.size() > 1) build_.comm.all_gather(Tensor::borrow(own), Tensor::borrow(all));
  most_best_rows_ = *std::min_element(all.begin(), all.end());
  return *most_best_rows_;
}

void ParallelLMHead::take_best(const Tensor& x, ops::LinearBestArgs args) const {
  args.weight = &weight_;
  args.x = x;
  args.bias = bias_;
  args.soft_cap = soft_cap_;
  if (build_.comm.size() == 1) return ops::linear_best(build_.ctx, args);
  // What each rank says of its part goes to all ranks in one exchange.
  const int64_t ranks = build_.comm.size(), rows = args.rows.dim(0);
  const Tensor own = build_.ctx.make({3, rows}, DType::kI32),
               all = build_.ctx.make({3 * ranks, rows}, DType::kI32);
  ops::LinearBestArgs part = args;
  part.ids = own.rows(0, 1).reshape({rows, 1});
  part.values = own.rows(1, 2).reshape({rows, 1}).as(DType::kF32);
  part.log_sums = own.rows(2, 3).reshape({rows}).as(DType::kF32);
  part.best = {};
  part.first_id = static_cast<int32_t>(ids_.begin);
  ops::linear_best(build_.ctx, part);
  build_.comm.all_gather(own, all);
  const Tensor parts = all.reshape({ranks, 3 * rows});
  ops::join_best(build_.ctx, {parts.columns(0, rows), parts.columns(rows, 2 * rows).as(DType::kF32),
                              parts.columns(2 * rows, 3 * rows).as(DType::kF32), args.log_sums,
                              args.ids, args.values, args.best});
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
