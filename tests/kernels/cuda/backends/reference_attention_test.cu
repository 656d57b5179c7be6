// The plain attention of CUDA devices against the CPU's: rows and pages of every type, whatever the
// ops' arguments ask for, through the ops in a backend's scope.
#include <cmath>
#include <optional>

#include "kernels/cuda/backends/cuda_attention.h"
#include "tests/kernels/cuda/attention/attention_util.h"
#include "tests/kernels/cuda/attention/planned.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::indices;
using testing::kActivations;
using testing::Planned;
using testing::Random;
using testing::rounded;
using testing::to_device;

AttentionTable table_of(const Context& ctx) {
  return {ctx, *cuda::attention_ops(AttentionBackend::kReference)};
}

Tensor there_if_any(Context& ctx, const Tensor& t) { return t.empty() ? t : to_device(ctx, t); }

// The lengths of some sequences, whose queries are the last of their keys.
struct Lengths {
  std::vector<int32_t> queries, keys;

  Lengths(Random& random, bool all_are_queries) {
    for (int64_t count = random.integer(1, 3); count > 0; --count) {
      queries.push_back(random.pick({1, 1, 5, 9, 70}));
      keys.push_back(all_are_queries ? queries.back()
                                     : queries.back() + random.pick({0, 3, 64, 700}));
    }
  }
};

Tensor rounded_matrix(Random& random, int64_t rows, int64_t columns, DType dtype) {
  return rounded(random.matrix(rows, columns), dtype);
}

class Rows {
 public:
  Rows(Random& random, DType dtype, int head_dim) : dtype_(dtype), lengths_(random, true) {
    const int kv_heads = random.pick({1, 2}), heads = kv_heads * random.pick({1, 2});
    indptr_ = testing::indptr_of(lengths_.queries);
    const int64_t rows = indptr_.back(), kv_size = int64_t{kv_heads} * head_dim;
    const Tensor q = rounded_matrix(random, rows, int64_t{heads} * head_dim, dtype);
    const Tensor k = rounded_matrix(random, rows, kv_size, dtype);
    const Tensor v = rounded_matrix(random, rows, kv_size, dtype);
    args_ = {q, k, v, indices(indptr_), heads, head_dim, 0.3f, Tensor(q.shape(), DType::kF32)};
    args_.num_kv_heads = kv_heads;
    args_.soft_cap = random.pick({0.0f, 5.0f});
    args_.window = {random.pick({-1, 0, 6}), random.pick({-1, 0, 6})};
    if (random.integer(0, 1) == 0) args_.bias = {random.matrix(heads, 33), 16};
    const int64_t more = random.integer(0, 2);
    if (more == 1) add_globals(random);
    if (more == 2) add_side(random, kv_size);
  }

  void expect(Context& ctx, Random& random) const {
    reference::ragged_attention(args_);
    std::vector<AttentionSequence> sequences;
    for (size_t i = 0; i + 1 < indptr_.size(); ++i) {
      const int32_t count = indptr_[i + 1] - indptr_[i];
      sequences.push_back({indptr_[i], count, count, indptr_[i], false});
    }
    const Planned planned(ctx, sequences, args_.num_heads,
                          ctx.backend().attention_tiles(dtype_, args_.head_dim));
    const DeviceMatrix q(ctx, random, args_.q, dtype_), k(ctx, random, args_.k, dtype_),
        v(ctx, random, args_.v, dtype_), out(ctx, random, args_.q.dim(0), args_.q.dim(1), dtype_);
    std::optional<DeviceMatrix> side_k, side_v;
    ops::RaggedAttentionArgs a = args_;
    a.q = q.tensor();
    a.k = k.tensor();
    a.v = v.tensor();
    a.out = out.tensor();
    a.plan = &planned.plan;
    for (Tensor* t : {&a.indptr, &a.global_rows, &a.global_indptr, &a.bias.values, &a.side.ranges,
                      &a.side.bias.values})
      *t = there_if_any(ctx, *t);
    if (!args_.side.k.empty()) {
      a.side.k = side_k.emplace(ctx, random, args_.side.k, dtype_).tensor();
      a.side.v = side_v.emplace(ctx, random, args_.side.v, dtype_).tensor();
    }
    const AttentionTable table = table_of(ctx);
    const AttentionScope scope(ctx, &table);
    ops::ragged_attention(ctx, a);
    EXPECT_TRUE(testing::close(out.values(), args_.out, dtype_, false))
        << name_of(dtype_) << " heads of " << args_.head_dim << ", " << indptr_.back() << " rows, "
        << (args_.side.ranges.empty() ? "" : "side keys, ")
        << (args_.global_indptr.empty() ? "" : "global keys, ") << "window " << args_.window.back
        << " " << args_.window.ahead << ", cap " << args_.soft_cap;
  }

 private:
  void add_globals(Random& random) {
    std::vector<int32_t> rows, of{0};
    for (size_t i = 0; i + 1 < indptr_.size(); ++i) {
      for (int32_t row = indptr_[i]; row < indptr_[i + 1]; ++row)
        if (random.integer(0, 4) == 0) rows.push_back(row);
      of.push_back(static_cast<int32_t>(rows.size()));
    }
    args_.global_rows = indices(rows);
    args_.global_indptr = indices(of);
  }
  void add_side(Random& random, int64_t kv_size) {
    constexpr int32_t kSide = 40;
    std::vector<int32_t> ranges;
    for (size_t i = 0; i + 1 < indptr_.size(); ++i) {
      const auto first = static_cast<int32_t>(random.integer(0, kSide));
      ranges.insert(ranges.end(), {first, static_cast<int32_t>(random.integer(first, kSide))});
    }
    args_.side.k = rounded_matrix(random, kSide, kv_size, dtype_);
    args_.side.v = rounded_matrix(random, kSide, kv_size, dtype_);
    args_.side.ranges = indices(ranges).reshape({std::ssize(ranges) / 2, 2});
    args_.side.unit = random.pick({0, 1, 4});
    if (random.integer(0, 1) == 0) args_.side.bias = {random.matrix(args_.num_heads, 9), 4};
  }

  DType dtype_;
  Lengths lengths_;
  std::vector<int32_t> indptr_;
  ops::RaggedAttentionArgs args_{};
};

TEST(CudaReferenceAttention, Rows) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int head_dim : {1, 7, 16, 64, 100, 256})
      Rows(random, dtype, head_dim).expect(ctx, random);
  }
}

// Pages of the queries' type, or of f8, into which new keys are written.
class Pages {
 public:
  Pages(Random& random, DType dtype, DType stored, int head_dim)
      : dtype_(dtype),
        stored_(stored),
        lengths_(random, false),
        block_size_(random.pick({1, 3, 16})),
        causal_(random.integer(0, 1) == 0),
        kv_heads_(random.pick({1, 2})) {
    const int heads = kv_heads_ * random.pick({1, 2});
    layout_ = random.pick({KvLayout::kNHD, KvLayout::kHND});
    const std::vector<int32_t> qo = testing::indptr_of(lengths_.queries);
    std::vector<int32_t> kv{0}, last;
    for (const int32_t keys : lengths_.keys) {
      kv.push_back(kv.back() + (keys - 1) / block_size_ + 1);
      last.push_back((keys - 1) % block_size_ + 1);
    }
    page_numbers_.resize(static_cast<size_t>(kv.back()));
    std::iota(page_numbers_.begin(), page_numbers_.end(), 0);
    std::shuffle(page_numbers_.begin(), page_numbers_.end(), random.engine());
    q_ = rounded_matrix(random, qo.back(), int64_t{heads} * head_dim, dtype);
    new_k_ = rounded_matrix(random, qo.back(), int64_t{kv_heads_} * head_dim, dtype);
    new_v_ = rounded_matrix(random, qo.back(), int64_t{kv_heads_} * head_dim, dtype);
    args_ = {q_,
             pages(random, head_dim),
             indices(qo),
             indices(kv),
             indices(page_numbers_),
             indices(last),
             heads,
             head_dim,
             0.3f,
             causal_,
             Tensor(q_.shape(), DType::kF32)};
    args_.soft_cap = random.pick({0.0f, 5.0f});
    if (causal_) {
      args_.window_back = random.pick({-1, 0, 20});
      if (random.integer(0, 1) == 0) args_.bias = {random.matrix(heads, 33), 16};
    }
    args_.log_sums = Tensor({q_.dim(0), heads}, DType::kF32);
    for (size_t s = 0; s < lengths_.queries.size(); ++s)
      for (int32_t i = 0; i < lengths_.queries[s]; ++i) {
        const int32_t key = lengths_.keys[s] - lengths_.queries[s] + i;
        slots_.push_back(page_numbers_[static_cast<size_t>(kv[s] + key / block_size_)] *
                             block_size_ +
                         key % block_size_);
      }
    sequences(qo, kv);
  }

  void expect(Context& ctx, Random& random) {
    const Planned planned(ctx, sequences_, args_.num_heads,
                          ctx.backend().attention_tiles(dtype_, args_.head_dim));
    const DeviceMatrix q(ctx, random, q_, dtype_), k(ctx, random, new_k_, dtype_),
        v(ctx, random, new_v_, dtype_), out(ctx, random, q_.dim(0), q_.dim(1), dtype_);
    ops::PagedAttentionArgs a = args_;
    a.q = q.tensor();
    a.out = out.tensor();
    a.plan = &planned.plan;
    a.pages = {to_device(ctx, of_type(args_.pages.data)), layout_,
               there_if_any(ctx, args_.pages.scales)};
    a.log_sums = to_device(ctx, args_.log_sums);
    for (Tensor* t : {&a.kv_page_indices, &a.bias.values}) *t = there_if_any(ctx, *t);
    const ops::WriteKvArgs write{k.tensor(), v.tensor(), to_device(ctx, indices(slots_)), a.pages};
    if (causal_) {
      a.write = &write;
      reference::write_kv({new_k_, new_v_, indices(slots_), args_.pages});
    }
    reference::paged_attention(args_);
    const AttentionTable table = table_of(ctx);
    const AttentionScope scope(ctx, &table);
    ops::paged_attention(ctx, a);
    const auto about = [&] {
      return std::string(name_of(dtype_)) + ", pages of " + name_of(stored_) + ", heads of " +
             std::to_string(args_.head_dim) + (causal_ ? ", causal" : "") + ", window " +
             std::to_string(args_.window_back);
    };
    EXPECT_TRUE(testing::close(out.values(), args_.out, dtype_, false)) << about();
    EXPECT_TRUE(testing::near(ctx.on_host(a.log_sums), args_.log_sums, 2e-5, 2e-6)) << about();
  }

 private:
  // On the host: f32 of what the type holds, or 8 bits.
  KvPages pages(Random& random, int head_dim) const {
    const bool nhd = layout_ == KvLayout::kNHD;
    const Shape shape = {std::ssize(page_numbers_), 2, nhd ? block_size_ : kv_heads_,
                         nhd ? kv_heads_ : block_size_, head_dim};
    if (page_scale_type(stored_))
      return testing::random_pages_in_8_bits(random, stored_, layout_, shape);
    const Tensor values(shape, DType::kF32);
    const Tensor matrix = rounded_matrix(random, values.size() / head_dim, head_dim, dtype_);
    return {matrix.reshape(shape), layout_};
  }
  Tensor of_type(const Tensor& host) const {
    if (page_scale_type(stored_)) return host;
    const Tensor out(host.shape(), dtype_);
    const std::span<const float> all(host.data<float>(), static_cast<size_t>(host.size()));
    const std::vector<std::byte> bytes = testing::to_type(all, dtype_);
    std::memcpy(out.raw(), bytes.data(), bytes.size());
    return out;
  }
  void sequences(const std::vector<int32_t>& qo, const std::vector<int32_t>& kv) {
    for (size_t s = 0; s < lengths_.queries.size(); ++s)
      sequences_.push_back({qo[s], lengths_.queries[s], lengths_.keys[s], kv[s], causal_});
  }

  DType dtype_, stored_;
  Lengths lengths_;
  int block_size_;
  bool causal_;
  int kv_heads_;
  KvLayout layout_;
  std::vector<int32_t> page_numbers_, slots_;
  Tensor q_, new_k_, new_v_;
  ops::PagedAttentionArgs args_{};
  std::vector<AttentionSequence> sequences_;
};

TEST(CudaReferenceAttention, Pages) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int head_dim : {1, 7, 16, 64, 100, 256}) {
      Pages(random, dtype, dtype, head_dim).expect(ctx, random);
      for (const DType pages : testing::types_in_8_bits())
        Pages(random, dtype, pages, head_dim).expect(ctx, random);
    }
  }
}

}  // namespace
}  // namespace tandem
