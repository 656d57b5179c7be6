// The weights of cross-attention: the reference's, of every type of pages; a row's own bits.
#include <algorithm>

#include "tests/kernels/kernels_test_util.h"

namespace tandem::attention_weights_test {
namespace {

using testing::indices;
using testing::near;
using testing::Random;
using testing::same_bits;
using testing::ShuffledPages;

struct WeightsProblem {
  Tensor q;
  ops::AttentionWeightsArgs args;

  WeightsProblem(Random& random, Context& ctx, DType dtype) {
    const int heads = static_cast<int>(random.integer(1, 3));
    const int64_t head_dim = random.pick<int64_t>({1, 7, 16, 40, 64, 80});
    const auto keys = static_cast<int32_t>(random.integer(1, 130)),
               block_size = random.pick<int32_t>({1, 3, 16});
    const ShuffledPages pages(random, {keys}, block_size);
    const KvPages to = testing::nan_pages(pages.count() + 1, block_size, heads, head_dim, dtype,
                                          random.pick({KvLayout::kNHD, KvLayout::kHND}));
    const Tensor k = random.strided(keys, heads * head_dim);
    ops::write_kv(ctx, {k, k, indices(pages.slots), to});
    const int64_t rows = random.integer(1, 9);
    q = random.strided(rows, head_dim);
    args = {q,
            to,
            indices(pages.order),
            keys,
            static_cast<int>(random.integer(0, heads - 1)),
            1.0f / std::sqrt(static_cast<float>(head_dim)),
            random.strided(rows, random.integer(1, keys))};
  }
};

TEST(AttentionWeights, MatchTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 60; ++round) {
    WeightsProblem p(random, ctx, random.pick(testing::kPageTypes));
    ops::attention_weights(ctx, p.args);
    const Tensor got = p.args.out;
    p.args.out = Tensor(got.shape(), DType::kF32);
    reference::attention_weights(p.args);
    EXPECT_TRUE(near(got, p.args.out, 1e-7, 1e-5));
  }
}

TEST(AttentionWeights, ARowHasItsOwnBits) {
  Random random;
  Context one(1), three(3);
  for (int round = 0; round < 20; ++round) {
    WeightsProblem p(random, one, random.pick(testing::kPageTypes));
    ops::attention_weights(three, p.args);
    for (int64_t t = 0; t < p.q.dim(0); ++t) {
      auto alone = p.args;
      alone.q = p.q.rows(t, t + 1);
      alone.out = Tensor({1, p.args.out.dim(1)}, DType::kF32);
      ops::attention_weights(one, alone);
      EXPECT_TRUE(same_bits(alone.out, p.args.out.rows(t, t + 1)));
    }
  }
}

TEST(AttentionWeights, AHeadOfAnotherRankHasZeros) {
  Random random;
  Context ctx(2);
  WeightsProblem p(random, ctx, DType::kF32);
  p.args.q = {};
  p.args.kv_head = -1;
  ops::attention_weights(ctx, p.args);
  EXPECT_TRUE(same_bits(p.args.out, Tensor::zeros(p.args.out.shape(), DType::kF32)));
}

}  // namespace
}  // namespace tandem::attention_weights_test
