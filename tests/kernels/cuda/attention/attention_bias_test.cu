// A bias by position in the attention kernels: the reference's values, and a query's own bits
// wherever it stands in a chunk or a tile.
#include "tests/kernels/cuda/attention/attention_util.h"
#include "tests/kernels/cuda/attention/planned.h"

namespace tandem {
namespace {

using testing::AttentionLayout;
using testing::AttentionProblem;
using testing::DeviceMatrix;
using testing::expect_own_bits_of_rows;
using testing::expect_own_bits_of_tiles;
using testing::expect_reference;
using testing::indices;
using testing::kAttentionTypes;
using testing::Planned;
using testing::Random;
using testing::random_layout;
using testing::to_device;

// Tables shorter and longer than distances get; zeros within and outside.
ops::PositionBias random_bias(Random& random, int64_t heads) {
  const int64_t columns = random.pick({1, 2, 7, 64, 257});
  return {random.matrix(heads, columns, 2.0f),
          static_cast<int32_t>(random.integer(-5, columns + 5))};
}

// Of encoders and decoders: not causal with as many keys as queries, or causal.
void add_with_bias(AttentionProblem& problem, Random& random, int64_t queries, int64_t keys) {
  const bool encoder = random.integer(0, 1) == 1;
  problem.add(random, queries, encoder ? queries : std::max(queries, keys), !encoder,
              random.pick({1.0f, 4.0f}));
}

TEST(CudaAttentionBias, RowsMatchTheReference) {
  Random random;
  for (int head_dim : {7, 16, 32, 64, 80, 128, 256})
    for (DType dtype : kAttentionTypes) {
      AttentionProblem problem{dtype, static_cast<int>(random.integer(1, 3)), head_dim, {}};
      problem.bias = random_bias(random, problem.heads);
      for (int64_t count = random.integer(1, 4); count > 0; --count)
        add_with_bias(problem, random, random.pick({1, 1, 2, 4, 8, 9, 20}),
                      random.pick({1, 2, 31, 33, 200}));
      expect_reference(problem, random_layout(random), random);
    }
}

TEST(CudaAttentionBias, RowsMatchTheReferenceOverChunks) {
  Random random;
  for (int keys : {511, 513, 1100})
    for (DType dtype : kAttentionTypes) {
      AttentionProblem problem{dtype, 2, random.pick({7, 16, 64}), {}};
      problem.bias = random_bias(random, problem.heads);
      problem.add(random, 1, keys, true);
      problem.add(random, random.pick({2, 9}), keys, true);
      expect_reference(problem, random_layout(random), random);
    }
}

TEST(CudaAttentionBias, TilesMatchTheReference) {
  Random random;
  for (int head_dim : {16, 32, 48, 64, 80, 96, 112, 128})
    for (DType dtype : {DType::kF16, DType::kBF16}) {
      AttentionProblem problem{dtype, static_cast<int>(random.integer(1, 2)), head_dim, {}};
      problem.bias = random_bias(random, problem.heads);
      add_with_bias(problem, random, random.pick({9, 16, 17, 64, 65, 130}),
                    random.pick({70, 128, 129}));
      problem.add(random, random.pick({1, 5, 30}), random.pick({31, 64, 65}), true);
      AttentionLayout layout = random_layout(random);
      layout.tiles = true;
      layout.odd_strides = false;
      expect_reference(problem, layout, random);
    }
}

TEST(CudaAttentionBias, TilesMatchTheReferenceOverChunks) {
  Random random;
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    AttentionProblem problem{dtype, 1, 16, {}};
    problem.bias = random_bias(random, 1);
    problem.add(random, 10, 2052, true);
    AttentionLayout layout;
    layout.tiles = true;
    layout.block_size = random.pick({0, 3, 16});
    expect_reference(problem, layout, random);
  }
}

// Queries of the last positions, alone and together, in every kind of memory.
TEST(CudaAttentionBias, AQueryOfRowsHasItsOwnBits) {
  Random random;
  for (DType dtype : kAttentionTypes) {
    AttentionProblem batch{dtype, 2, random.pick({16, 40, 64, 128}), {}};
    batch.bias = random_bias(random, 2);
    batch.add(random, 4, random.pick({5, 130, 515}), true, 3.0f);
    batch.add(random, 1, 70, true);
    batch.add(random, 8, 20, true);
    expect_own_bits_of_rows(batch, random);
  }
}

// The last queries of a prompt without those before them: in other places of a tile.
TEST(CudaAttentionBias, AQueryOfTilesHasItsOwnBits) {
  Random random;
  for (DType dtype : {DType::kF16, DType::kBF16})
    for (const bool causal : {false, true}) {
      AttentionProblem batch{dtype, 1, random.pick({16, 64}), {}};
      batch.bias = random_bias(random, 1);
      batch.add(random, 70, 150, causal, 3.0f);
      batch.add(random, 20, 90, causal);
      expect_own_bits_of_tiles(batch, random);
    }
}

// Through the ops, the encoder's and a decoder's.
TEST(CudaAttentionBias, OpsMatchTheReference) {
  Random random;
  constexpr int kHeads = 2, kHeadDim = 16;
  constexpr int32_t kTokens = 70, kBlock = 16, kPages = 5;
  for (const DType dtype : kAttentionTypes) {
    Context ctx = testing::cuda_context(dtype);
    const ops::PositionBias bias = random_bias(random, kHeads);
    const ops::PositionBias there{to_device(ctx, bias.values), bias.zero};
    Tensor q = testing::rounded(random.matrix(kTokens, kHeads * kHeadDim), dtype);
    const Tensor k = testing::rounded(random.matrix(kTokens, kHeads * kHeadDim), dtype),
                 v = testing::rounded(random.matrix(kTokens, kHeads * kHeadDim), dtype);
    const bool tiles = ctx.backend().attention_tiles(dtype, kHeadDim);
    const DeviceMatrix keys(ctx, random, k, dtype, 8), values(ctx, random, v, dtype, 8);
    {
      const DeviceMatrix queries(ctx, random, q, dtype, 8);
      const DeviceMatrix out(ctx, random, kTokens, kHeads * kHeadDim, dtype, 8);
      const Planned planned(ctx, {{0, kTokens, kTokens, 0, false}}, kHeads, tiles);
      ops::RaggedAttentionArgs args{queries.tensor(), keys.tensor(), values.tensor(), {},
                                    kHeads,           kHeadDim,      0.25f,           out.tensor(),
                                    &planned.plan,    there};
      ops::ragged_attention(ctx, args);
      const Tensor want(q.shape(), DType::kF32);
      reference::ragged_attention(
          {q, k, v, indices({0, kTokens}), kHeads, kHeadDim, 0.25f, want, nullptr, bias});
      EXPECT_TRUE(testing::close(out.values(), want, dtype, tiles)) << name_of(dtype);
    }
    std::vector<int32_t> slots(kTokens), order{0, 1, 2, 3, 4};
    std::iota(slots.begin(), slots.end(), 0);
    q = q.rows(0, random.pick({1, 8, 20}));
    const auto count = static_cast<int32_t>(q.dim(0));
    const DeviceMatrix queries(ctx, random, q, dtype, 8);
    std::vector<DType> types = testing::types_in_8_bits();
    types.push_back(dtype);
    for (const DType type : types) {
      const auto scale = page_scale_type(type);
      const Shape shape{kPages, 2, kHeads, kBlock, kHeadDim};
      KvPages want_pages{Tensor::zeros(shape, scale ? type : DType::kF32), KvLayout::kHND},
          pages{to_device(ctx, Tensor::zeros(shape, type)), KvLayout::kHND};
      if (scale) {
        want_pages.scales = Tensor::zeros({kPages, 2, kHeads, kBlock}, *scale);
        pages.scales = to_device(ctx, want_pages.scales);
      }
      reference::write_kv({k, v, indices(slots), want_pages});
      ops::write_kv(ctx, {keys.tensor(), values.tensor(), to_device(ctx, indices(slots)), pages});
      const DeviceMatrix out(ctx, random, count, kHeads * kHeadDim, dtype, 8);
      const Planned planned(ctx, {{0, count, kTokens, 0, true}}, kHeads, tiles && !scale);
      ops::paged_attention(ctx, {queries.tensor(),
                                 pages,
                                 {},
                                 {},
                                 to_device(ctx, indices(order)),
                                 {},
                                 kHeads,
                                 kHeadDim,
                                 0.25f,
                                 true,
                                 out.tensor(),
                                 &planned.plan,
                                 there});
      const Tensor want(q.shape(), DType::kF32);
      reference::paged_attention({q, want_pages, indices({0, count}), indices({0, kPages}),
                                  indices(order), indices({kTokens - (kPages - 1) * kBlock}),
                                  kHeads, kHeadDim, 0.25f, true, want, nullptr, bias});
      EXPECT_TRUE(testing::close(out.values(), want, dtype, tiles && !scale))
          << name_of(dtype) << ", " << count << " queries, pages of " << name_of(type);
    }
  }
}

}  // namespace
}  // namespace tandem
