// The attention kernels against the reference over odd shapes, and their promises: the same bits
// alone and in a batch, for any pages, beside any other queries.
#include "kernels/cuda/attention/attention_common.cuh"
#include "tests/kernels/cuda/attention/attention_util.h"

namespace tandem {
namespace {

using testing::AttentionLayout;
using testing::AttentionProblem;
using testing::AttentionRun;
using testing::expect_own_bits_of_rows;
using testing::expect_own_bits_of_tiles;
using testing::expect_reference;
using testing::kAttentionTypes;
using testing::Random;
using testing::random_layout;
using testing::same_bits;

TEST(CudaAttentionRows, MatchTheReference) {
  Random random;
  for (int head_dim : {1, 7, 16, 32, 40, 64, 80, 96, 100, 128, 200, 256})
    for (DType dtype : kAttentionTypes) {
      AttentionProblem problem{dtype, static_cast<int>(random.integer(1, 3)), head_dim, {}};
      for (int64_t count = random.integer(1, 5); count > 0; --count) {
        const int queries = random.pick({0, 1, 1, 2, 3, 4, 8, 9});
        const int keys = random.pick({1, 2, 31, 32, 33, 200});
        problem.add(random, queries, std::max(queries, keys), random.integer(0, 1) == 1,
                    random.pick({1.0f, 4.0f}));
      }
      expect_reference(problem, random_layout(random), random);
    }
}

TEST(CudaAttentionRows, MatchTheReferenceOverChunks) {
  Random random;
  for (int keys : {511, 512, 513, 1100})
    for (DType dtype : kAttentionTypes) {
      AttentionProblem problem{dtype, 1, random.pick({7, 16, 64, 80}), {}};
      problem.add(random, 1, keys, true);
      problem.add(random, random.pick({2, 4, 9}), keys, random.integer(0, 1) == 1);
      expect_reference(problem, random_layout(random), random);
    }
}

// Queries of the last positions, alone and together, in every kind of memory: the same bits.
TEST(CudaAttentionRows, AQueryHasItsOwnBits) {
  Random random;
  for (DType dtype : kAttentionTypes)
    for (const bool causal : {false, true}) {
      AttentionProblem batch{dtype, 2, random.pick({16, 40, 64, 128}), {}};
      const int keys = random.pick({5, 130, 515});
      batch.add(random, 4, keys, causal, 3.0f);
      batch.add(random, 1, 70, true);
      batch.add(random, 8, 20, causal);
      expect_own_bits_of_rows(batch, random);
    }
}

TEST(CudaAttentionTiles, MatchTheReference) {
  Random random;
  for (int head_dim : {16, 32, 48, 64, 80, 96, 112, 128})
    for (DType dtype : {DType::kF16, DType::kBF16}) {
      AttentionProblem problem{dtype, 1, head_dim, {}};
      problem.add(random, random.pick({9, 16, 17, 64, 65}), random.pick({70, 127, 128, 129}),
                  random.integer(0, 1) == 1, random.pick({1.0f, 4.0f}));
      problem.add(random, random.pick({1, 5, 30}), random.pick({31, 64, 65}), true);
      AttentionLayout layout = random_layout(random);
      layout.tiles = true;
      layout.odd_strides = false;
      expect_reference(problem, layout, random);
    }
}

TEST(CudaAttentionTiles, MatchTheReferenceOverChunks) {
  Random random;
  for (DType dtype : {DType::kF16, DType::kBF16}) {
    AttentionProblem problem{dtype, 1, 16, {}};
    problem.add(random, 10, 2052, true);
    problem.add(random, 9, random.pick({1, 2, 33, 513}), false);
    AttentionLayout layout;
    layout.tiles = true;
    layout.block_size = random.pick({0, 3, 16});
    expect_reference(problem, layout, random);
  }
}

// The last queries of a prompt with and without those before them, and in other places of a tile.
TEST(CudaAttentionTiles, AQueryHasItsOwnBits) {
  Random random;
  for (DType dtype : {DType::kF16, DType::kBF16})
    for (const bool causal : {false, true}) {
      AttentionProblem batch{dtype, 1, random.pick({16, 64}), {}};
      batch.add(random, 70, 150, causal, 3.0f);
      batch.add(random, 20, 90, causal);
      expect_own_bits_of_tiles(batch, random);
    }
}

// One call after the other finds its tickets as the first did.
TEST(CudaAttention, RunsAgain) {
  Random random;
  AttentionProblem problem{DType::kBF16, 2, 16, {}};
  problem.add(random, 1, 1100, true);
  problem.add(random, 9, 2049, false);
  AttentionLayout layout;
  layout.tiles = true;
  AttentionRun run(problem, layout, random);
  const std::vector<Tensor> once = run(), twice = run(2);
  for (size_t s = 0; s < once.size(); ++s) EXPECT_TRUE(same_bits(once[s], twice[s]));
}

TEST(CudaAttention, OnlyPadding) {
  Random random;
  AttentionProblem problem{DType::kF32, 1, 16, {}};
  problem.add(random, 0, 5, true);
  AttentionLayout layout;
  layout.padding = 3;
  EXPECT_EQ(AttentionRun(problem, layout, random)()[0].dim(0), 0);
}

// A NaN reaches the queries that see it, in its element, and no others; keys of -inf weigh nothing,
// and a softmax of nothing else is NaN.
TEST(CudaAttentionRows, NaNsAndInfinities) {
  Random random;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  AttentionProblem problem{DType::kF32, 1, 64, {}};
  for (int i = 0; i < 4; ++i) problem.add(random, 6, 600, true);
  for (auto& s : problem.sequences)  // q . k of key 597 is -inf where k is
    for (int64_t row = 0; row < 6; ++row) s.q.row<float>(row)[0] = 1.0f;
  problem.sequences[0].v.row<float>(597)[3] = std::nanf("");
  problem.sequences[1].k.row<float>(597)[3] = std::nanf("");
  problem.sequences[2].k.row<float>(597)[0] = -kInf;
  for (int64_t j = 0; j < 600; ++j) problem.sequences[3].k.row<float>(j)[0] = -kInf;
  const std::vector<Tensor> want = expected(problem).out;
  const std::vector<Tensor> got = AttentionRun(problem, random_layout(random), random)();
  for (int s = 0; s < 4; ++s)
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t d = 0; d < 64; ++d) {
        const float x = got[static_cast<size_t>(s)].row<float>(i)[d];
        const bool seen = 594 + i >= 597;
        const bool nan = s == 3 || (seen && (s == 1 || (s == 0 && d == 3)));
        ASSERT_EQ(std::isnan(x), nan) << "sequence " << s << ", query " << i << ", element " << d;
        if (nan) continue;
        ASSERT_NEAR(x, want[static_cast<size_t>(s)].row<float>(i)[d], 1e-5);
      }
}

TEST(CudaAttention, DividesByPageSizes) {
  Random random;
  for (int round = 0; round < 20000; ++round) {
    const auto d =
        static_cast<int32_t>(1 + (random.integer(0, 0x7ffffffe) >> random.integer(0, 30)));
    const cuda::Divider divider = cuda::Divider::of(d);
    const int64_t multiple = random.integer(0, 0x7fffffff / d) * d;
    for (int64_t n : {std::max<int64_t>(multiple, 1) - 1, multiple, int64_t{0x7fffffff},
                      random.integer(0, 0x7fffffff)})
      ASSERT_EQ(divider.quotient(static_cast<int32_t>(n)), n / d) << n << " / " << d;
  }
}

TEST(CudaAttention, WhatTilesAreFor) {
  EXPECT_TRUE(cuda::tiles_supported(DType::kBF16, 64, 90));
  EXPECT_TRUE(cuda::tiles_supported(DType::kF16, 16, 80));
  EXPECT_FALSE(cuda::tiles_supported(DType::kF32, 64, 90));
  EXPECT_FALSE(cuda::tiles_supported(DType::kBF16, 72, 90));
  EXPECT_FALSE(cuda::tiles_supported(DType::kBF16, 144, 90));
  EXPECT_FALSE(cuda::tiles_supported(DType::kBF16, 64, 75));
}

}  // namespace
}  // namespace tandem
