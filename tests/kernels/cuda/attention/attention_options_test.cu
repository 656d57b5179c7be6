// What attention kernels do where a batch asks for it: grouped heads, soft caps, windows, sums for
// a merge, each with the others: the reference's values, and a query's own bits.
#include "tests/kernels/cuda/attention/attention_util.h"
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::AttentionLayout;
using testing::AttentionProblem;
using testing::expect_own_bits_of_rows;
using testing::expect_own_bits_of_tiles;
using testing::expect_reference;
using testing::has_window;
using testing::kAttentionTypes;
using testing::Random;
using testing::random_layout;

// Some of them, or all.
AttentionProblem with_options(Random& random, DType dtype, int head_dim) {
  AttentionProblem problem{dtype, 0, head_dim, {}};
  problem.group = random.pick({1, 1, 2, 3, 4});
  problem.heads = problem.group * static_cast<int>(random.integer(1, 2));
  problem.soft_cap = random.pick({0.0f, 1.5f, 50.0f});
  problem.window.back = random.pick({-1, 0, 1, 5, 31, 64, 130});
  if (random.integer(0, 2) == 0)
    problem.bias = {random.matrix(problem.heads, 33, 2.0f), static_cast<int32_t>(16)};
  problem.log_sums = random.integer(0, 1) == 1;
  return problem;
}

// Causal or not; a bias and a window of an encoder are of as many keys as queries.
void add_with_options(AttentionProblem& problem, Random& random, int64_t queries, int64_t keys) {
  const bool causal = random.integer(0, 1) == 1;
  const bool positions = has_window(problem) || !problem.bias.values.empty();
  if (causal) keys = std::max(queries, keys);
  if (!causal && positions) keys = queries;
  problem.add(random, queries, keys, causal, random.pick({1.0f, 4.0f}));
}

// All causal, or of an encoder with a window ahead too. The kernels look ahead of causal queries as
// the mask does: not at all.
void add_sequences(AttentionProblem& problem, Random& random,
                   std::initializer_list<int64_t> queries, std::initializer_list<int64_t> keys) {
  const bool encoder = random.integer(0, 2) == 0;
  if (encoder) {
    problem.window.ahead = random.pick({-1, 0, 7, 70});
    problem.log_sums = false;
  }
  for (int64_t count = random.integer(1, 4); count > 0; --count) {
    if (encoder) {
      const int64_t n = random.pick(keys);
      problem.add(random, n, n, false, random.pick({1.0f, 4.0f}));
    } else if (has_window(problem)) {
      const int64_t n = random.pick(queries);
      problem.add(random, n, std::max(n, random.pick(keys)), true, random.pick({1.0f, 4.0f}));
    } else {
      add_with_options(problem, random, random.pick(queries), random.pick(keys));
    }
  }
}

TEST(CudaAttentionOptions, RowsMatchTheReference) {
  Random random;
  for (int head_dim : {1, 7, 16, 32, 64, 80, 128, 200, 256})
    for (DType dtype : kAttentionTypes) {
      AttentionProblem problem = with_options(random, dtype, head_dim);
      add_sequences(problem, random, {1, 1, 2, 4, 8, 9, 20}, {1, 2, 31, 33, 100});
      expect_reference(problem, random_layout(random), random);
    }
}

TEST(CudaAttentionOptions, RowsMatchTheReferenceOverChunks) {
  Random random;
  for (int back : {0, 100, 511, 512, 600, 2000})
    for (DType dtype : {DType::kF32, random.pick({DType::kF16, DType::kBF16})}) {
      AttentionProblem problem = with_options(random, dtype, random.pick({7, 16, 64}));
      problem.window.back = back;
      problem.add(random, 1, random.pick({513, 1100, 1536}), true);
      problem.add(random, random.pick({2, 9}), random.pick({512, 1100, 1540}), true);
      expect_reference(problem, random_layout(random), random);
    }
}

TEST(CudaAttentionOptions, EncoderRowsMatchTheReferenceOverChunks) {
  Random random;
  for (DType dtype : kAttentionTypes) {
    AttentionProblem problem = with_options(random, dtype, 16);
    problem.group = problem.heads = 1;
    problem.bias = {};
    problem.log_sums = false;
    problem.window = {random.pick({0, 30, 520}), random.pick({0, 40, 520})};
    problem.add(random, 530, 530, false);
    AttentionLayout layout = random_layout(random);
    layout.block_size = 0;
    expect_reference(problem, layout, random);
  }
}

TEST(CudaAttentionOptions, TilesMatchTheReference) {
  Random random;
  for (int head_dim : {16, 32, 48, 64, 80, 96, 112, 128})
    for (DType dtype : {DType::kF16, DType::kBF16}) {
      AttentionProblem problem = with_options(random, dtype, head_dim);
      add_sequences(problem, random, {1, 9, 16, 65, 130}, {31, 70, 129, 200});
      problem.add(random, 20, 33, true);
      AttentionLayout layout = random_layout(random);
      layout.tiles = true;
      layout.odd_strides = false;
      expect_reference(problem, layout, random);
    }
}

TEST(CudaAttentionOptions, TilesMatchTheReferenceOverChunks) {
  Random random;
  for (DType dtype : {DType::kF16, DType::kBF16})
    for (int back : {-1, 50, 2060}) {
      AttentionProblem problem = with_options(random, dtype, 16);
      problem.group = problem.heads = 2;
      problem.bias = {};
      problem.window.back = back;
      problem.add(random, 10, random.pick({2052, 4100}), true);
      AttentionLayout layout;
      layout.tiles = true;
      layout.block_size = random.pick({0, 3, 16});
      expect_reference(problem, layout, random);
    }
}

TEST(CudaAttentionOptions, In8BitsMatchesTheReference) {
  Random random;
  for (const DType pages : testing::types_in_8_bits())
    for (int head_dim : {7, 16, 64, 128, 256})
      for (DType dtype : kAttentionTypes) {
        AttentionProblem problem = with_options(random, dtype, head_dim);
        problem.add(random, random.pick({1, 2, 9}), random.pick({9, 33, 200}), true);
        problem.add(random, 1, random.pick({600, 1030}), true);
        round_to_8_bits(problem, pages);
        AttentionLayout layout = random_layout(random);
        layout.in_8_bits = pages;
        if (layout.block_size == 0) layout.block_size = 16;
        expect_reference(problem, layout, random);
      }
}

// Queries of the last positions, alone and together, in every kind of memory: whatever others of
// their item see.
TEST(CudaAttentionOptions, AQueryOfRowsHasItsOwnBits) {
  Random random;
  for (DType dtype : kAttentionTypes)
    for (int back : {-1, 3, 200, 513}) {
      AttentionProblem batch = with_options(random, dtype, random.pick({16, 40, 64, 128}));
      batch.window.back = back;
      batch.log_sums = true;
      batch.add(random, 4, random.pick({5, 130, 515, 1026}), true, 3.0f);
      batch.add(random, 8, 20, true);
      expect_own_bits_of_rows(batch, random);
    }
}

// The last queries of a prompt without those before them: in other places of a tile.
TEST(CudaAttentionOptions, AQueryOfTilesHasItsOwnBits) {
  Random random;
  for (DType dtype : {DType::kF16, DType::kBF16})
    for (int back : {-1, 10, 70}) {
      AttentionProblem batch = with_options(random, dtype, random.pick({16, 64}));
      batch.window.back = back;
      batch.add(random, 70, 150, true, 3.0f);
      batch.add(random, 20, 90, true);
      expect_own_bits_of_tiles(batch, random);
    }
}

// Pages that no window reaches may be anybody's, or nowhere.
TEST(CudaAttentionOptions, KeysOutsideAWindowAreNotRead) {
  Random random;
  for (DType dtype : kAttentionTypes)
    for (const int64_t queries : {1, 4, 30}) {
      if (queries > kRowsPerBlock && dtype == DType::kF32) continue;
      AttentionProblem problem = with_options(random, dtype, 16);
      problem.window.back = random.pick({0, 100, 600});
      problem.add(random, queries, 5000, true);
      AttentionLayout layout;
      layout.block_size = 16;
      layout.tiles = queries > kRowsPerBlock;
      layout.unseen_nowhere = true;
      expect_reference(problem, layout, random);
    }
}

}  // namespace
}  // namespace tandem
