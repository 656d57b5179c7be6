// A bias by position in encoder and paged attention: the reference's values on all CPU levels, and
// the bits of a query whatever is beside it.
#include <algorithm>

#include "tests/kernels/kernels_test_util.h"

namespace tandem::attention_bias_test {
namespace {

using testing::indices;
using testing::indptr_of;
using testing::near;
using testing::Random;
using testing::same_bits;
using testing::ShuffledPages;

class AttentionBiasTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(AttentionBiasTest);

const std::initializer_list<int> kHeadDims = {8, 14, 32, 64, 80};

// Tables shorter and longer than distances get; zeros within and outside.
ops::PositionBias random_bias(Random& random, int64_t heads) {
  const int64_t columns = random.pick({1, 2, 7, 33, 257});
  return {random.matrix(heads, columns, 2.0f),
          static_cast<int32_t>(random.integer(-5, columns + 5))};
}

// One sequence after the other; each with as many queries and keys of its own.
struct Problem {
  int heads, head_dim;
  std::vector<int32_t> queries, keys;
  Tensor q, k, v;

  Problem(Random& random, int64_t sequences, int head_dim, bool encoder, int64_t most_keys = 150)
      : heads(static_cast<int>(random.integer(1, 3))), head_dim(head_dim) {
    for (int64_t s = 0; s < sequences; ++s) {
      keys.push_back(static_cast<int32_t>(random.integer(1, most_keys)));
      const int64_t most = std::min<int64_t>(keys.back(), 20);
      queries.push_back(encoder ? keys.back() : static_cast<int32_t>(random.integer(0, most)));
    }
    q = random.strided(indptr_of(queries).back(), width());
    k = random.strided(indptr_of(keys).back(), width());
    v = random.strided(indptr_of(keys).back(), width());
  }
  int64_t width() const { return int64_t{heads} * head_dim; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

  ops::RaggedAttentionArgs ragged(const ops::PositionBias& bias) const {
    return {q,     k,        v,       indices(indptr_of(keys)),
            heads, head_dim, scale(), Tensor({q.dim(0), width()}, DType::kF32),
            {},    bias};
  }
  ops::PagedAttentionArgs paged(Random& random, Context& ctx, int32_t block_size, DType dtype,
                                const ops::PositionBias& bias) const {
    const ShuffledPages pages(random, keys, block_size);
    const KvPages to =
        testing::nan_pages(pages.count(), block_size, heads, head_dim, dtype, KvLayout::kHND);
    ops::write_kv(ctx, {k, v, indices(pages.slots), to});
    return {q,
            to,
            indices(indptr_of(queries)),
            indices(pages.indptr),
            indices(pages.order),
            indices(pages.last),
            heads,
            head_dim,
            scale(),
            /*causal=*/true,
            Tensor({q.dim(0), width()}, DType::kF32),
            {},
            bias};
  }
};

TEST_P(AttentionBiasTest, EncodersMatchTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 15; ++round) {
    const Problem p(random, random.integer(1, 3), random.pick(kHeadDims), true);
    ops::RaggedAttentionArgs args = p.ragged(random_bias(random, p.heads));
    const Tensor got = args.out;
    ops::ragged_attention(ctx, args);
    args.out = Tensor(got.shape(), DType::kF32);
    reference::ragged_attention(args);
    EXPECT_TRUE(near(got, args.out, 4e-6, 1e-5))
        << args.bias.values.dim(1) << " columns, zero " << args.bias.zero;
  }
}

TEST_P(AttentionBiasTest, PagesMatchTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 25; ++round) {
    const Problem p(random, random.integer(1, 4), random.pick(kHeadDims), false);
    ops::PagedAttentionArgs args =
        p.paged(random, ctx, random.pick({1, 3, 16, 32}), random.pick(testing::kPageTypes),
                random_bias(random, p.heads));
    const Tensor got = args.out;
    ops::paged_attention(ctx, args);
    args.out = Tensor(got.shape(), DType::kF32);
    reference::paged_attention(args);
    EXPECT_TRUE(near(got, args.out, 4e-6, 1e-5))
        << args.bias.values.dim(1) << " columns, zero " << args.bias.zero;
  }
}

// The last query of the first `queries` of a sequence, by itself.
TEST_P(AttentionBiasTest, AQueryHasItsOwnBits) {
  Random random;
  Context one(1), three(3);
  for (int round = 0; round < 4; ++round) {
    const Problem p(random, 3, random.pick(kHeadDims), false);
    const ops::PositionBias bias = random_bias(random, p.heads);
    const DType dtype = random.pick(testing::kPageTypes);
    const auto all = p.paged(random, three, 16, dtype, bias);
    ops::paged_attention(three, all);
    const std::vector<int32_t> qo = indptr_of(p.queries), kv = indptr_of(p.keys);
    for (size_t s = 0; s < p.keys.size(); ++s)
      for (int32_t i = 0; i < p.queries[s]; ++i) {
        Problem alone = p;
        alone.queries = {1};
        alone.keys = {p.keys[s] - p.queries[s] + i + 1};
        alone.q = p.q.rows(qo[s] + i, qo[s] + i + 1);
        alone.k = p.k.rows(kv[s], kv[s] + alone.keys[0]);
        alone.v = p.v.rows(kv[s], kv[s] + alone.keys[0]);
        const auto args = alone.paged(random, one, random.pick({1, 5, 16}), dtype, bias);
        ops::paged_attention(one, args);
        ASSERT_TRUE(same_bits(args.out, all.out.rows(qo[s] + i, qo[s] + i + 1)));
      }
  }
}

TEST_P(AttentionBiasTest, EncodersAreBatchInvariant) {
  Random random;
  Context one(1), three(3);
  const Problem p(random, 3, random.pick(kHeadDims), true);
  const ops::PositionBias bias = random_bias(random, p.heads);
  const auto all = p.ragged(bias);
  ops::ragged_attention(three, all);
  const std::vector<int32_t> at = indptr_of(p.keys);
  for (size_t s = 0; s < p.keys.size(); ++s) {
    Problem alone = p;
    alone.queries = alone.keys = {p.keys[s]};
    for (Tensor* t : {&alone.q, &alone.k, &alone.v}) *t = t->rows(at[s], at[s + 1]);
    const auto args = alone.ragged(bias);
    ops::ragged_attention(one, args);
    EXPECT_TRUE(same_bits(args.out, all.out.rows(at[s], at[s + 1])));
  }
}

// Zeros change nothing; so does the same value for all keys, but for its rounding.
TEST_P(AttentionBiasTest, ZerosAreNoBias) {
  Random random;
  Context ctx(2);
  const Problem p(random, 3, random.pick(kHeadDims), true);
  const ops::PositionBias zeros{Tensor::zeros({p.heads, 33}, DType::kF32), 16};
  const auto plain = p.ragged({}), biased = p.ragged(zeros);
  ops::ragged_attention(ctx, plain);
  ops::ragged_attention(ctx, biased);
  EXPECT_TRUE(same_bits(biased.out, plain.out));
  const auto pages = p.paged(random, ctx, 16, DType::kF32, {}),
             biased_pages = p.paged(random, ctx, 16, DType::kF32, zeros);
  ops::paged_attention(ctx, pages);
  ops::paged_attention(ctx, biased_pages);
  EXPECT_TRUE(same_bits(biased_pages.out, pages.out));
}

TEST(AttentionBias, LevelsGiveTheSameBits) {
  Random random;
  Context ctx(2);
  for (const int head_dim : kHeadDims) {
    const Problem encoder(random, 2, head_dim, true), decoder(random, 3, head_dim, false);
    const auto ragged = encoder.ragged(random_bias(random, encoder.heads));
    const auto paged =
        decoder.paged(random, ctx, 16, DType::kF32, random_bias(random, decoder.heads));
    Tensor first, first_ragged;
    for (const CpuIsa isa : testing::available_isas()) {
      set_cpu_isa(isa);
      ops::RaggedAttentionArgs r = ragged;
      r.out = Tensor(ragged.out.shape(), DType::kF32);
      ops::ragged_attention(ctx, r);
      ops::PagedAttentionArgs a = paged;
      a.out = Tensor(paged.out.shape(), DType::kF32);
      ops::paged_attention(ctx, a);
      if (first.empty()) first = a.out, first_ragged = r.out;
      EXPECT_TRUE(same_bits(a.out, first)) << name_of(isa);
      EXPECT_TRUE(same_bits(r.out, first_ragged)) << name_of(isa);
    }
    set_cpu_isa(best_cpu_isa());
  }
}

TEST(AttentionBiasDeathTest, WhatCannotBe) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Random random;
  Context ctx(1);
  const Problem p(random, 1, 8, true);
  const Tensor table = random.matrix(p.heads, 5);
  auto cross = p.paged(random, ctx, 16, DType::kF32, {table, 2});
  cross.causal = false;
  EXPECT_DEATH(ops::paged_attention(ctx, cross), "cross-attention");
  EXPECT_DEATH(ops::ragged_attention(ctx, p.ragged({random.matrix(p.heads + 1, 5), 2})),
               "check failed");
}

}  // namespace
}  // namespace tandem::attention_bias_test
