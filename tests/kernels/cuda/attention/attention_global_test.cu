// Attention of windows and global tokens, and of queries that are not the tokens attended to:
// through the op, against the reference; a query's own bits.
#include <cmath>

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
using testing::same_bits;
using testing::to_device;

// Sequences beside each other, whose queries are their tokens, some of which are global.
struct GlobalProblem {
  DType dtype;
  int heads = 2, kv_heads = 1, head_dim = 16;
  std::vector<int32_t> indptr{0}, global_rows = {}, global_indptr{0};
  Tensor q = {}, k = {}, v = {};
  ops::Window window = {};
  ops::PositionBias bias = {};
  float soft_cap = 0.0f;
  ops::SideKeys side = {};

  void add(Random& random, int32_t tokens, int32_t globals) {
    std::vector<int32_t> rows(static_cast<size_t>(tokens));
    std::iota(rows.begin(), rows.end(), indptr.back());
    std::shuffle(rows.begin(), rows.end(), random.engine());
    rows.resize(static_cast<size_t>(globals));
    std::ranges::sort(rows);
    global_rows.insert(global_rows.end(), rows.begin(), rows.end());
    global_indptr.push_back(static_cast<int32_t>(global_rows.size()));
    indptr.push_back(indptr.back() + tokens);
  }
  void fill(Random& random) {
    q = rounded(random.matrix(indptr.back(), int64_t{heads} * head_dim, 2.0f), dtype);
    k = rounded(random.matrix(indptr.back(), int64_t{kv_heads} * head_dim), dtype);
    v = rounded(random.matrix(indptr.back(), int64_t{kv_heads} * head_dim), dtype);
  }
  // Instead of global tokens.
  void add_side(Random& random, int64_t rows) {
    const auto sequences = static_cast<int64_t>(indptr.size()) - 1;
    std::vector<int32_t> ranges;
    for (int64_t s = 0; s < sequences; ++s) {
      const auto begin = static_cast<int32_t>(random.integer(0, rows));
      ranges.insert(ranges.end(), {begin, static_cast<int32_t>(random.integer(begin, rows))});
    }
    side.ranges = indices(ranges).reshape({sequences, 2});
    side.unit = random.pick({1, 4, 16});
    side.k = rounded(random.matrix(rows, int64_t{kv_heads} * head_dim), dtype);
    side.v = rounded(random.matrix(rows, int64_t{kv_heads} * head_dim), dtype);
    if (random.integer(0, 1) == 0)
      side.bias = {random.matrix(heads, 33), static_cast<int32_t>(random.integer(0, 16))};
  }
  ops::RaggedAttentionArgs args(const Tensor& out) const {
    const float scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    ops::RaggedAttentionArgs a{q, k, v, indices(indptr), heads, head_dim, scale, out};
    a.bias = bias;
    a.num_kv_heads = kv_heads;
    a.soft_cap = soft_cap;
    a.window = window;
    a.side = side;
    if (!side.ranges.empty()) return a;
    a.global_rows = indices(global_rows);
    a.global_indptr = indices(global_indptr);
    return a;
  }
  Tensor expected() const {
    const Tensor want(q.shape(), DType::kF32);
    reference::ragged_attention(args(want));
    return want;
  }
  Tensor run(Context& ctx, Random& random) const {
    const DeviceMatrix queries(ctx, random, q, dtype, 8), keys(ctx, random, k, dtype, 8),
        values(ctx, random, v, dtype, 8), out(ctx, random, q.dim(0), q.dim(1), dtype, 8);
    std::vector<AttentionSequence> sequences;
    for (size_t i = 0; i + 1 < indptr.size(); ++i)
      sequences.push_back(
          {indptr[i], indptr[i + 1] - indptr[i], indptr[i + 1] - indptr[i], indptr[i], false});
    const Planned planned(ctx, sequences, heads, ctx.backend().attention_tiles(dtype, head_dim));
    ops::RaggedAttentionArgs a = args(out.tensor());
    a.q = queries.tensor();
    a.k = keys.tensor();
    a.v = values.tensor();
    a.plan = &planned.plan;
    if (!bias.values.empty()) a.bias.values = to_device(ctx, bias.values);
    for (Tensor* t :
         {&a.indptr, &a.global_rows, &a.global_indptr, &a.side.ranges, &a.side.bias.values})
      *t = t->size() == 0 ? Tensor() : to_device(ctx, *t);
    std::optional<DeviceMatrix> side_keys, side_values;
    if (!side.ranges.empty()) {
      a.side.k = side_keys.emplace(ctx, random, side.k, dtype, 8).tensor();
      a.side.v = side_values.emplace(ctx, random, side.v, dtype, 8).tensor();
    }
    ops::ragged_attention(ctx, a);
    return out.values();
  }
};

TEST(CudaAttentionGlobal, MatchesTheReference) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int head_dim : {1, 7, 16, 64, 100, 256}) {
      GlobalProblem problem{dtype};
      problem.head_dim = head_dim;
      problem.kv_heads = random.pick({1, 2});
      problem.heads = problem.kv_heads * random.pick({1, 2});
      problem.window = {random.pick({-1, 0, 3, 32, 50}), random.pick({-1, 0, 3, 32, 50})};
      problem.soft_cap = random.pick({0.0f, 0.0f, 2.0f});
      if (random.integer(0, 2) == 0)
        problem.bias = {random.matrix(problem.heads, 65), static_cast<int32_t>(30)};
      for (int64_t count = random.integer(1, 3); count > 0; --count) {
        const int32_t tokens = random.pick({1, 5, 8, 33, 64, 70, 150});
        problem.add(random, tokens, std::min(tokens, random.pick({0, 1, 1, 3, 40})));
      }
      problem.fill(random);
      EXPECT_TRUE(testing::close(problem.run(ctx, random), problem.expected(), dtype, false))
          << name_of(dtype) << " heads of " << head_dim << ", " << problem.indptr.back()
          << " tokens, " << problem.global_rows.size() << " global, window " << problem.window.back
          << " " << problem.window.ahead;
    }
  }
}

TEST(CudaAttentionGlobal, SideKeys) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int head_dim : {7, 16, 64, 100}) {
      GlobalProblem problem{dtype};
      problem.head_dim = head_dim;
      problem.heads = problem.kv_heads * random.pick({1, 2});
      problem.window = {random.pick({-1, 0, 3, 50}), random.pick({-1, 0, 3, 50})};
      if (random.integer(0, 1) == 0)
        problem.bias = {random.matrix(problem.heads, 65), static_cast<int32_t>(30)};
      for (int64_t count = random.integer(1, 3); count > 0; --count)
        problem.add(random, random.pick({1, 5, 8, 33, 70}), 0);
      problem.add_side(random, random.pick({1, 31, 40, 70}));
      problem.fill(random);
      EXPECT_TRUE(testing::close(problem.run(ctx, random), problem.expected(), dtype, false))
          << name_of(dtype) << " heads of " << head_dim << ", " << problem.indptr.back()
          << " tokens, " << problem.side.k.dim(0) << " side keys, unit " << problem.side.unit;
    }
  }
}

// Over what would be several chunks of an item.
TEST(CudaAttentionGlobal, LongSequences) {
  Random random;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Context ctx = testing::cuda_context(dtype);
    GlobalProblem problem{dtype};
    problem.heads = 1;
    problem.window = {9, 9};
    problem.add(random, 9, 1);
    problem.add(random, dtype == DType::kF32 ? 520 : 2056, 2);
    problem.fill(random);
    EXPECT_TRUE(testing::close(problem.run(ctx, random), problem.expected(), dtype, false))
        << name_of(dtype);
  }
}

TEST(CudaAttentionGlobal, ASequenceHasItsOwnBits) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    GlobalProblem both{dtype};
    both.window = {random.pick({3, 40}), random.pick({3, 40})};
    both.add(random, random.pick({5, 70}), 2);
    both.add(random, random.pick({3, 33, 90}), random.pick({0, 1, 3}));
    both.fill(random);
    const Tensor together = both.run(ctx, random);
    GlobalProblem second = both;
    const int32_t first = both.indptr[1], last = both.indptr[2];
    second.indptr = {0, last - first};
    second.global_rows.assign(both.global_rows.begin() + 2, both.global_rows.end());
    for (int32_t& row : second.global_rows) row -= first;
    second.global_indptr = {0, static_cast<int32_t>(second.global_rows.size())};
    for (Tensor* t : {&second.q, &second.k, &second.v}) *t = t->rows(first, last);
    EXPECT_TRUE(same_bits(second.run(ctx, random), together.rows(first, last))) << name_of(dtype);
  }
}

// The global tokens' own attention: a few queries of each sequence over all of its keys; the last
// two see some keys of each other's. Perhaps with side keys.
TEST(CudaAttentionGlobal, QueriesThatAreNotTheTokens) {
  Random random;
  constexpr int kHeads = 4, kKvHeads = 2, kHeadDim = 16;
  const std::vector<int32_t> of_queries{0, 3, 3, 15, 18}, ranges{0, 40, 40, 45, 45, 645, 600, 650};
  const auto matrix = [&](int64_t rows, int64_t heads, DType dtype) {
    return rounded(random.matrix(rows, heads * kHeadDim), dtype);
  };
  for (const DType dtype : kActivations)
    for (const bool has_side : {false, true}) {
      Context ctx = testing::cuda_context(dtype);
      const Tensor q = matrix(18, kHeads, dtype), k = matrix(650, kKvHeads, dtype),
                   v = matrix(650, kKvHeads, dtype), want(q.shape(), DType::kF32);
      ops::RaggedAttentionArgs args{q, k, v, indices(of_queries), kHeads, kHeadDim, 0.25f, want};
      args.num_kv_heads = kKvHeads;
      args.kv_ranges = indices(ranges).reshape({4, 2});
      ops::SideKeys side;
      if (has_side) {
        side = {matrix(40, kKvHeads, dtype), matrix(40, kKvHeads, dtype),
                indices({0, 3, 3, 3, 1, 40, 0, 3}).reshape({4, 2})};
        side.bias = {random.matrix(kHeads, 9, 2.0f), 1};
        side.unit = 0;
      }
      args.side = side;
      reference::ragged_attention(args);
      std::vector<AttentionSequence> sequences;
      for (size_t i = 0; i < 4; ++i)
        sequences.push_back({of_queries[i], of_queries[i + 1] - of_queries[i],
                             ranges[2 * i + 1] - ranges[2 * i], ranges[2 * i], false});
      const bool tiles = ctx.backend().attention_tiles(dtype, kHeadDim);
      const Planned planned(ctx, sequences, kHeads, tiles);
      const DeviceMatrix queries(ctx, random, q, dtype, 8), keys(ctx, random, k, dtype, 8),
          values(ctx, random, v, dtype, 8), out(ctx, random, q.dim(0), q.dim(1), dtype, 8);
      std::optional<DeviceMatrix> side_keys, side_values;
      args.q = queries.tensor();
      args.k = keys.tensor();
      args.v = values.tensor();
      args.out = out.tensor();
      args.plan = &planned.plan;
      if (has_side) {
        args.side.k = side_keys.emplace(ctx, random, side.k, dtype, 8).tensor();
        args.side.v = side_values.emplace(ctx, random, side.v, dtype, 8).tensor();
        args.side.ranges = to_device(ctx, side.ranges);
        args.side.bias.values = to_device(ctx, side.bias.values);
      }
      args.indptr = to_device(ctx, args.indptr);
      args.kv_ranges = to_device(ctx, args.kv_ranges);
      ops::ragged_attention(ctx, args);
      EXPECT_TRUE(testing::close(out.values(), want, dtype, tiles && !has_side))
          << name_of(dtype) << (has_side ? " with side keys" : "");
    }
}

}  // namespace
}  // namespace tandem
