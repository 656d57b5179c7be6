// Attention of few queries whose keys and values come by bulk copies: the bits of the kernels that
// load them, and the reference, around the borders of pages, stages and chunks.
#include <functional>

#include "tests/kernels/cuda/attention/attention_util.h"

namespace tandem {
namespace {

using testing::AttentionLayout;
using testing::AttentionProblem;
using testing::AttentionResults;
using testing::AttentionRun;
using testing::expect_reference;
using testing::Random;
using testing::same_bits;

const std::initializer_list<DType> kTypes = {DType::kF32, DType::kF16, DType::kBF16};

class CudaAttentionBulk : public ::testing::Test {
 protected:
  void SetUp() override {
    cudaDeviceProp properties{};
    ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
    if (!cuda::bulk_copies_possible(10 * properties.major + properties.minor,
                                    properties.sharedMemPerBlockOptin))
      GTEST_SKIP() << "the device has no bulk copies";
  }
};

AttentionLayout bulk_layout(Random& random) {
  AttentionLayout layout;
  layout.block_size = random.pick({4, 5, 8, 16, 16, 16, 32, 64, 128, 256, 1000});
  layout.padding = static_cast<int>(random.integer(0, 2));
  layout.bulk = true;
  return layout;
}

void expect_the_bits_of_loads(const AttentionProblem& problem, const AttentionLayout& layout,
                              Random& random) {
  AttentionRun bulk(problem, layout, random);
  const AttentionResults got = bulk.run(2);
  EXPECT_TRUE(bulk.took_bulk_copies());
  AttentionLayout plain = layout;
  plain.bulk = false;
  AttentionRun loads(problem, plain, random);
  const AttentionResults want = loads.run();
  EXPECT_FALSE(loads.took_bulk_copies());
  for (size_t s = 0; s < want.out.size(); ++s)
    EXPECT_TRUE(same_bits(got.out[s], want.out[s]))
        << name_of(problem.dtype) << " heads of " << problem.head_dim << ", group " << problem.group
        << ", sequence " << s << " of " << problem.sequences[s].q.dim(0) << " queries, "
        << problem.sequences[s].k.dim(0) << " keys, pages of " << layout.block_size;
}

AttentionProblem random_problem(Random& random, DType dtype, int head_dim,
                                const std::vector<int>& keys, int most_queries) {
  const int group = random.pick({1, 1, 2});
  AttentionProblem problem{dtype, group * static_cast<int>(random.integer(1, 2)), head_dim, {}};
  problem.group = group;
  if (random.integer(0, 2) == 0) {
    const int columns = static_cast<int>(random.integer(1, 40));
    problem.bias = {random.matrix(problem.heads, columns),
                    static_cast<int32_t>(random.integer(0, columns - 1))};
  }
  for (const int n : keys) {
    const int queries = std::min(n, static_cast<int>(random.integer(0, most_queries)));
    // (A bias needs a place among the keys.)
    problem.add(random, queries, n, !problem.bias.values.empty() || random.integer(0, 1) == 1,
                random.pick({1.0f, 4.0f}));
  }
  problem.add(random, most_queries, most_queries + 2, true);
  return problem;
}

TEST_F(CudaAttentionBulk, HasTheBitsOfLoads) {
  Random random;
  for (const DType dtype : kTypes)
    for (const int head_dim : {40, 64, 64, 80, 128, 128})
      for (const int most_queries : {1, 4}) {
        std::vector<int> keys;
        for (int count = 0; count < 5; ++count)
          keys.push_back(random.pick({1,   2,   4,   15,  16,  17,  31,  33,  63,  64,  65,  127,
                                      128, 129, 191, 192, 193, 255, 257, 300, 383, 384, 385, 511}));
        expect_the_bits_of_loads(random_problem(random, dtype, head_dim, keys, most_queries),
                                 bulk_layout(random), random);
      }
}

// More stages than there are, more chunks than one, more items than blocks.
TEST_F(CudaAttentionBulk, HasTheBitsOfLoadsOverChunks) {
  Random random;
  for (const DType dtype : kTypes)
    for (const int head_dim : {64, 128})
      for (const int most_queries : {1, 3}) {
        const std::vector<int> keys = {random.pick({512, 513, 640}), 20,
                                       random.pick({1024, 1025, 1153, 1407})};
        expect_the_bits_of_loads(random_problem(random, dtype, head_dim, keys, most_queries),
                                 bulk_layout(random), random);
      }
}

TEST_F(CudaAttentionBulk, MatchesTheReference) {
  Random random;
  for (const DType dtype : kTypes)
    for (const int head_dim : {48, 64, 128}) {
      const std::vector<int> keys = {random.pick({1, 5, 64}), random.pick({127, 129, 385, 520})};
      const AttentionProblem problem = random_problem(random, dtype, head_dim, keys, 2);
      expect_reference(problem, bulk_layout(random), random);
    }
}

// NaN where there is no key, in pages that are copied, reaches nobody; in a key it does.
TEST_F(CudaAttentionBulk, NaNs) {
  Random random;
  AttentionProblem problem{DType::kBF16, 1, 64, {}};
  for (const int keys : {130, 200}) problem.add(random, 1, keys, false);
  problem.sequences[1].v.row<float>(150)[3] = std::nanf("");
  AttentionLayout layout = bulk_layout(random);
  const std::vector<Tensor> got = AttentionRun(problem, layout, random)();
  for (int s = 0; s < 2; ++s)
    for (int64_t d = 0; d < 64; ++d)
      EXPECT_EQ(std::isnan(got[static_cast<size_t>(s)].row<float>(0)[d]), s == 1 && d == 3);
}

// What else there is goes on by loads, asked or not.
TEST_F(CudaAttentionBulk, IsNotForAllCalls) {
  Random random;
  struct Change {
    const char* what;
    std::function<void(AttentionProblem&, AttentionLayout&)> make;
  };
  const std::vector<Change> changes = {
      {"rows", [](auto&, auto& l) { l.block_size = 0; }},
      {"pages by tokens", [](auto&, auto& l) { l.layout = KvLayout::kNHD; }},
      {"small pages", [](auto&, auto& l) { l.block_size = 3; }},
      {"rows that begin anywhere", [](auto&, auto& l) { l.odd_strides = true; }},
      {"more queries", [](auto&, auto& l) { l.any_queries = true; }},
      {"a window", [](auto& p, auto&) { p.window.back = 20; }},
      {"a soft cap", [](auto& p, auto&) { p.soft_cap = 5.0f; }},
      {"sums", [](auto& p, auto&) { p.log_sums = true; }},
      {"8 bits", [](auto& p, auto& l) { round_to_f8(p), l.f8 = true; }},
  };
  for (const Change& change : changes) {
    AttentionProblem problem{DType::kBF16, 2, 64, {}};
    problem.add(random, 1, 70, true);
    AttentionLayout layout = bulk_layout(random);
    change.make(problem, layout);
    EXPECT_FALSE([&] {
      AttentionRun run(problem, layout, random);
      run();
      return run.took_bulk_copies();
    }()) << change.what;
    expect_reference(problem, layout, random);
  }
  for (const int head_dim : {32, 36, 136}) {
    AttentionProblem problem{DType::kBF16, 2, head_dim, {}};
    problem.add(random, 1, 70, true);
    AttentionRun run(problem, bulk_layout(random), random);
    run();
    EXPECT_FALSE(run.took_bulk_copies()) << head_dim;
  }
}

TEST(CudaAttention, WhereBulkCopiesArePossible) {
  EXPECT_FALSE(cuda::bulk_copies_possible(80, 163 << 10));
  EXPECT_FALSE(cuda::bulk_copies_possible(120, 99 << 10));
}

}  // namespace
}  // namespace tandem
