// Attention with biases of each query and keys of its own; attention among tokens with boxes: the
// reference's values, and the bits of a query whatever is beside it.
#include <utility>

#include "kernels/box_distance.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::bucket_attention_test {
namespace {

using testing::indices;
using testing::indptr_of;
using testing::near;
using testing::Random;
using testing::same_bits;
using testing::ShuffledPages;

struct BucketProblem {
  ops::BucketAttentionArgs args{};

  BucketProblem(Random& random, Context& ctx, DType dtype, int sequences) {
    std::vector<int32_t> queries, keys;
    for (int i = 0; i < sequences; ++i) {
      queries.push_back(static_cast<int32_t>(random.integer(0, 5)));
      keys.push_back(queries.back() + static_cast<int32_t>(random.integer(1, 40)));
    }
    const int heads = static_cast<int>(random.integer(1, 3));
    const int64_t head_dim = random.pick<int64_t>({1, 7, 12, 16, 40}), size = heads * head_dim;
    const auto block_size = random.pick<int32_t>({1, 3, 16});
    const ShuffledPages pages(random, keys, block_size);
    args.pages = testing::nan_pages(pages.count() + 1, block_size, heads, head_dim, dtype,
                                    random.pick({KvLayout::kNHD, KvLayout::kHND}));
    const auto written = static_cast<int64_t>(pages.slots.size());
    ops::write_kv(ctx, {random.strided(written, size), random.strided(written, size),
                        indices(pages.slots), args.pages});
    args.qo_indptr = indices(indptr_of(queries));
    args.kv_indptr = indices(pages.indptr);
    args.kv_page_indices = indices(pages.order);
    args.kv_last_page_len = indices(pages.last);
    args.num_heads = heads;
    args.head_dim = static_cast<int>(head_dim);
    args.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
    args.buckets = static_cast<int>(random.integer(1, 6));
    std::vector<int32_t> of;
    for (int64_t i = random.integer(1, 30); i > 0; --i)
      of.push_back(static_cast<int32_t>(random.integer(0, args.buckets - 1)));
    args.bucket_of = indices(of);
    const int64_t rows = indptr_of(queries).back();
    args.q = random.strided(rows, size);
    args.biases = random.strided(rows, int64_t{heads} * args.buckets, 2.0f);
    args.out = random.strided(rows, size);
    args.ahead = static_cast<int32_t>(random.integer(0, 2));
    args.behind = static_cast<int32_t>(random.integer(0, 3));
    if (random.integer(0, 1) == 0) return;
    args.own_k = random.strided(rows, size);
    args.own_v = random.strided(rows, size);
  }
};

TEST(BucketAttention, MatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 60; ++round) {
    BucketProblem p(random, ctx, random.pick(testing::kPageTypes),
                    static_cast<int>(random.integer(1, 4)));
    ops::bucket_attention(ctx, p.args);
    const Tensor got = p.args.out;
    p.args.out = Tensor(got.shape(), DType::kF32);
    reference::bucket_attention(p.args);
    EXPECT_TRUE(near(got, p.args.out, 8e-6, 1e-5));
  }
}

TEST(BucketAttention, AQueryHasItsOwnBits) {
  Random random;
  Context one(1), three(3);
  for (int round = 0; round < 20; ++round) {
    BucketProblem p(random, one, random.pick(testing::kPageTypes), 3);
    ops::bucket_attention(three, p.args);
    const int32_t *qo = p.args.qo_indptr.data<int32_t>(), *kv = p.args.kv_indptr.data<int32_t>();
    for (int s = 0; s < 3; ++s) {
      const int64_t begin = qo[s], end = qo[s + 1];
      if (begin == end) continue;
      ops::BucketAttentionArgs alone = p.args;
      alone.qo_indptr = indices({0, static_cast<int32_t>(end - begin)});
      alone.kv_indptr = indices({0, kv[s + 1] - kv[s]});
      alone.kv_page_indices = p.args.kv_page_indices.rows(kv[s], kv[s + 1]);
      alone.kv_last_page_len = p.args.kv_last_page_len.rows(s, s + 1);
      for (Tensor* t : {&alone.q, &alone.biases, &alone.own_k, &alone.own_v})
        if (!t->empty()) *t = t->rows(begin, end);
      alone.out = Tensor({end - begin, p.args.out.dim(1)}, DType::kF32);
      ops::bucket_attention(one, alone);
      EXPECT_TRUE(same_bits(alone.out, p.args.out.rows(begin, end)));
    }
  }
}

class BoxAttentionTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(BoxAttentionTest);

Tensor random_boxes(Random& random, int64_t rows) {
  const Tensor out({rows, 4}, DType::kF32);
  // Hundredths, so that distances lie where they are cut.
  for (int64_t i = 0; i < out.size(); ++i)
    out.data<float>()[i] = static_cast<float>(random.integer(0, 100)) / 100.0f;
  return out;
}

ops::PositionBias random_bias(Random& random, int heads) {
  const int64_t columns = random.integer(1, 250);
  return {random.matrix(heads, columns, 2.0f), static_cast<int32_t>(random.integer(0, columns))};
}

ops::BoxAttentionArgs random_boxed(Random& random, const std::vector<int32_t>& lengths) {
  ops::BoxAttentionArgs args{};
  args.num_heads = static_cast<int>(random.integer(1, 3));
  args.head_dim = random.pick({1, 8, 12, 64});
  args.scale = 1.0f / std::sqrt(static_cast<float>(args.head_dim));
  args.indptr = indices(indptr_of(lengths));
  const int64_t rows = indptr_of(lengths).back(), size = int64_t{args.num_heads} * args.head_dim;
  for (Tensor* t : {&args.q, &args.k, &args.v, &args.out}) *t = random.strided(rows, size);
  args.boxes = random_boxes(random, rows);
  for (ops::PositionBias* bias : {&args.bias, &args.across, &args.down})
    *bias = random_bias(random, args.num_heads);
  return args;
}

TEST_P(BoxAttentionTest, MatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 25; ++round) {
    std::vector<int32_t> lengths;
    for (int64_t i = random.integer(1, 3); i > 0; --i)
      lengths.push_back(static_cast<int32_t>(random.integer(0, 90)));
    ops::BoxAttentionArgs args = random_boxed(random, lengths);
    ops::box_attention(ctx, args);
    const Tensor got = args.out;
    args.out = Tensor(got.shape(), DType::kF32);
    reference::box_attention(args);
    EXPECT_TRUE(near(got, args.out, 8e-6, 1e-5));
  }
}

TEST_P(BoxAttentionTest, APageDoesNotSeeItsNeighbours) {
  Random random;
  Context one(1), three(3);
  const ops::BoxAttentionArgs args = random_boxed(random, {17, 40, 5});
  ops::box_attention(three, args);
  ops::BoxAttentionArgs alone = args;
  alone.indptr = indices({0, 40});
  for (Tensor* t : {&alone.q, &alone.k, &alone.v, &alone.boxes}) *t = t->rows(17, 57);
  alone.out = Tensor({40, args.out.dim(1)}, DType::kF32);
  ops::box_attention(one, alone);
  EXPECT_TRUE(same_bits(alone.out, args.out.rows(17, 57)));
}

// Either way: what is not a whole hundredth is none.
TEST(BoxDistance, IsCutTowardsZero) {
  const float from[] = {0.5f, 0.2f, 0.5f, 0.4f}, to[] = {0.25f, 0.5f, 0.25f, 0.7f};
  EXPECT_EQ(box_distance(from, to, 0), -25);
  EXPECT_EQ(box_distance(to, from, 0), 25);
  const float near_one[] = {0.509f, 0.2f, 0.509f, 0.4f};
  EXPECT_EQ(box_distance(from, near_one, 0), 0);
  EXPECT_EQ(box_distance(near_one, from, 0), 0);
}

}  // namespace
}  // namespace tandem::bucket_attention_test
