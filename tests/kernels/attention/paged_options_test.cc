// Paged attention with grouped heads, soft caps, windows and log sums, and the merging of two: the
// reference's values on all CPU levels, and the bits of a query whatever is beside it.
#include <algorithm>

#include "tests/kernels/kernels_test_util.h"

namespace tandem::paged_options_test {
namespace {

using testing::indices;
using testing::indptr_of;
using testing::near;
using testing::Random;
using testing::same_bits;
using testing::ShuffledPages;

class PagedOptionsTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(PagedOptionsTest);

// What paged attention is asked for besides its sequences.
struct Options {
  float soft_cap = 0;
  int32_t window_back = ops::Window::kAll;
  ops::PositionBias bias = {};
  bool causal = true;
};

Options random_options(Random& random, int heads) {
  Options options;
  options.soft_cap = random.pick({0.0f, 1.5f, 50.0f});
  options.causal = random.integer(0, 3) > 0;
  if (!options.causal) return options;
  options.window_back = random.pick({ops::Window::kAll, 0, 3, 15, 16, 37, 1000});
  if (random.integer(0, 2) == 0)
    options.bias = {random.matrix(heads, random.pick({1, 7, 33}), 2.0f),
                    static_cast<int32_t>(random.integer(-5, 40))};
  return options;
}

// One sequence after the other, each with queries at the end of its keys.
struct Problem {
  int heads, kv_heads, head_dim;
  std::vector<int32_t> queries, keys;
  Tensor q, k, v;

  Problem(Random& random, int64_t sequences, int head_dim, int kv_heads, int group)
      : heads(kv_heads * group), kv_heads(kv_heads), head_dim(head_dim) {
    for (int64_t s = 0; s < sequences; ++s) {
      keys.push_back(static_cast<int32_t>(random.integer(1, random.pick({9, 60, 150}))));
      queries.push_back(
          static_cast<int32_t>(random.integer(0, std::min<int64_t>(keys.back(), 20))));
    }
    q = random.strided(indptr_of(queries).back(), int64_t{heads} * head_dim);
    k = random.strided(indptr_of(keys).back(), int64_t{kv_heads} * head_dim);
    v = random.strided(indptr_of(keys).back(), int64_t{kv_heads} * head_dim);
  }
  explicit Problem(Random& random)
      : Problem(random, random.integer(1, 4), random.pick({8, 14, 32, 64, 80, 128, 256}),
                static_cast<int>(random.integer(1, 3)), random.pick({1, 2, 3, 4, 7})) {}

  // Query i of sequence s, alone.
  Problem one_query(size_t s, int32_t i, bool causal) const {
    Problem alone = *this;
    const int32_t row = indptr_of(queries)[s] + i, first = indptr_of(keys)[s];
    alone.queries = {1};
    alone.keys = {causal ? keys[s] - queries[s] + i + 1 : keys[s]};
    alone.q = q.rows(row, row + 1);
    alone.k = k.rows(first, first + alone.keys[0]);
    alone.v = v.rows(first, first + alone.keys[0]);
    return alone;
  }

  ops::PagedAttentionArgs paged(Random& random, Context& ctx, int32_t block_size, DType dtype,
                                const Options& options) const {
    const ShuffledPages pages(random, keys, block_size);
    // One page more, of NaN.
    const int64_t blocks = pages.count() + 1;
    const KvLayout layout = random.pick({KvLayout::kNHD, KvLayout::kHND});
    const KvPages to = testing::nan_pages(blocks, block_size, kv_heads, head_dim, dtype, layout);
    ops::write_kv(ctx, {k, v, indices(pages.slots), to});
    ops::PagedAttentionArgs args{q,
                                 to,
                                 indices(indptr_of(queries)),
                                 indices(pages.indptr),
                                 indices(pages.order),
                                 indices(pages.last),
                                 heads,
                                 head_dim,
                                 1.0f / std::sqrt(static_cast<float>(head_dim)),
                                 options.causal,
                                 Tensor({q.dim(0), q.dim(1)}, DType::kF32),
                                 {},
                                 options.bias};
    args.soft_cap = options.soft_cap;
    args.window_back = options.window_back;
    args.log_sums = random.strided(q.dim(0), heads);
    return args;
  }
};

TEST_P(PagedOptionsTest, MatchTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 30; ++round) {
    const Problem p(random);
    const Options options = random_options(random, p.heads);
    ops::PagedAttentionArgs args = p.paged(random, ctx, random.pick({1, 3, 5, 16, 32}),
                                           random.pick(testing::kPageTypes), options);
    const Tensor got = args.out, sums = args.log_sums;
    ops::paged_attention(ctx, args);
    args.out = Tensor(got.shape(), DType::kF32);
    args.log_sums = Tensor({got.dim(0), p.heads}, DType::kF32);
    reference::paged_attention(args);
    const std::string what = std::to_string(p.heads) + " heads, " + std::to_string(p.kv_heads) +
                             " of keys, cap " + std::to_string(options.soft_cap) + ", window " +
                             std::to_string(options.window_back);
    EXPECT_TRUE(near(got, args.out, 8e-6, 1e-5)) << what;
    EXPECT_TRUE(near(sums, args.log_sums, 8e-6, 1e-6)) << what;
  }
}

TEST_P(PagedOptionsTest, AQueryHasItsOwnBits) {
  Random random;
  Context one(1), three(3);
  for (int round = 0; round < 8; ++round) {
    const Problem p(random);
    const Options options = random_options(random, p.heads);
    const DType dtype = random.pick(testing::kPageTypes);
    const auto all = p.paged(random, three, random.pick({2, 16}), dtype, options);
    ops::paged_attention(three, all);
    const std::vector<int32_t> qo = indptr_of(p.queries);
    for (size_t s = 0; s < p.keys.size(); ++s)
      for (int32_t i = 0; i < p.queries[s]; ++i) {
        const Problem alone = p.one_query(s, i, options.causal);
        const auto args = alone.paged(random, one, random.pick({1, 5, 16, 32}), dtype, options);
        ops::paged_attention(one, args);
        const int32_t row = qo[s] + i;
        ASSERT_TRUE(same_bits(args.out, all.out.rows(row, row + 1)));
        ASSERT_TRUE(same_bits(args.log_sums, all.log_sums.rows(row, row + 1)));
      }
  }
}

// A head of keys for each of the queries gives the bits of one for a group.
TEST_P(PagedOptionsTest, AGroupHasTheBitsOfHeadsOfTheirOwn) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 10; ++round) {
    const Problem p(random);
    const int group = p.heads / p.kv_heads;
    Problem apart = p;
    apart.kv_heads = p.heads;
    for (Tensor* t : {&apart.k, &apart.v}) {
      const Tensor few = *t;
      *t = Tensor({few.dim(0), int64_t{p.heads} * p.head_dim}, DType::kF32);
      for (int64_t row = 0; row < few.dim(0); ++row)
        for (int h = 0; h < p.heads; ++h)
          std::copy_n(few.row<float>(row) + h / group * p.head_dim, p.head_dim,
                      t->row<float>(row) + h * p.head_dim);
    }
    const Options options = random_options(random, p.heads);
    const DType dtype = random.pick(testing::kPageTypes);
    const auto together = p.paged(random, ctx, 16, dtype, options);
    const auto each = apart.paged(random, ctx, 16, dtype, options);
    ops::paged_attention(ctx, together);
    ops::paged_attention(ctx, each);
    EXPECT_TRUE(same_bits(together.out, each.out)) << p.heads << " and " << p.kv_heads;
    EXPECT_TRUE(same_bits(together.log_sums, each.log_sums));
  }
}

// Pages that only lie before the windows may be any; a window of all keys is none.
TEST_P(PagedOptionsTest, PagesBeforeTheWindowAreNotRead) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 10; ++round) {
    const Problem p(random);
    Options options;
    const auto all =
        p.paged(random, ctx, random.pick({1, 5, 16}), random.pick(testing::kPageTypes), options);
    const int32_t block = static_cast<int32_t>(all.pages.data.size() / all.pages.data.dim(0) / 2 /
                                               (p.kv_heads * p.head_dim));
    ops::paged_attention(ctx, all);
    ops::PagedAttentionArgs args = all;
    args.window_back = 150;
    args.out = Tensor(all.out.shape(), DType::kF32);
    ops::paged_attention(ctx, args);
    EXPECT_TRUE(same_bits(args.out, all.out));

    args.window_back = random.pick({0, 7, 30});
    ops::paged_attention(ctx, args);
    const Tensor before = args.out;
    args.out = Tensor(all.out.shape(), DType::kF32);
    const int32_t nothing = static_cast<int32_t>(all.pages.data.dim(0) - 1);
    for (size_t s = 0; s < p.keys.size(); ++s) {
      const int32_t seen = p.keys[s] - p.queries[s] - args.window_back;  // by the first query
      for (int32_t page = 0; (page + 1) * block <= seen; ++page)
        args.kv_page_indices.data<int32_t>()[args.kv_indptr.data<int32_t>()[s] + page] = nothing;
    }
    ops::paged_attention(ctx, args);
    EXPECT_TRUE(same_bits(args.out, before)) << "window " << args.window_back;
  }
}

// Attention over a sequence's first keys and over its others, merged, is that over all.
TEST_P(PagedOptionsTest, MergedAttentionIsOneSoftmax) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 20; ++round) {
    Problem p(random, 1, random.pick({8, 64}), 2, random.pick({1, 3}));
    Options options;
    options.causal = false;
    const DType dtype = random.pick(testing::kPageTypes);
    auto all = p.paged(random, ctx, 16, dtype, options);
    reference::paged_attention(all);
    if (p.keys[0] < 2 || p.queries[0] == 0) continue;
    const int32_t cut = static_cast<int32_t>(random.integer(1, p.keys[0] - 1));
    Problem first = p, rest = p;
    first.keys = {cut};
    first.k = p.k.rows(0, cut), first.v = p.v.rows(0, cut);
    rest.keys = {p.keys[0] - cut};
    rest.k = p.k.rows(cut, p.keys[0]), rest.v = p.v.rows(cut, p.keys[0]);
    const auto a = first.paged(random, ctx, 5, dtype, options);
    const auto b = rest.paged(random, ctx, 16, dtype, options);
    ops::paged_attention(ctx, a);
    ops::paged_attention(ctx, b);
    ops::MergeAttentionArgs merge{a.out, b.out, a.log_sums, b.log_sums,
                                  random.strided(p.q.dim(0), p.q.dim(1))};
    ops::merge_attention(ctx, merge);
    EXPECT_TRUE(near(merge.out, all.out, 8e-6, 1e-5));
    const Tensor got = merge.out;
    merge.out = Tensor(all.out.shape(), DType::kF32);
    reference::merge_attention(merge);
    EXPECT_TRUE(near(got, merge.out, 1e-6, 1e-6));
    const int64_t row = random.integer(0, p.q.dim(0) - 1);
    ops::MergeAttentionArgs alone{a.out.rows(row, row + 1), b.out.rows(row, row + 1),
                                  a.log_sums.rows(row, row + 1), b.log_sums.rows(row, row + 1),
                                  a.out.rows(row, row + 1)};  // in place
    ops::merge_attention(ctx, alone);
    EXPECT_TRUE(same_bits(alone.out, got.rows(row, row + 1)));
  }
}

TEST(PagedOptions, LevelsGiveTheSameBits) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 20; ++round) {
    const Problem p(random);
    const auto args =
        p.paged(random, ctx, 16, random.pick(testing::kPageTypes), random_options(random, p.heads));
    Tensor first, first_sums;
    for (const CpuIsa isa : testing::available_isas()) {
      set_cpu_isa(isa);
      ops::PagedAttentionArgs a = args;
      a.out = Tensor(args.out.shape(), DType::kF32);
      a.log_sums = Tensor({args.out.dim(0), p.heads}, DType::kF32);
      ops::paged_attention(ctx, a);
      if (first.empty()) first = a.out, first_sums = a.log_sums;
      EXPECT_TRUE(same_bits(a.out, first)) << name_of(isa);
      EXPECT_TRUE(same_bits(a.log_sums, first_sums)) << name_of(isa);
    }
    set_cpu_isa(best_cpu_isa());
  }
}

// More heads than a task has rows, all on one head of keys.
TEST_P(PagedOptionsTest, AGroupOfManyHeads) {
  Random random;
  Context ctx(2);
  const Problem p(random, 2, 8, 1, 150);
  auto args = p.paged(random, ctx, 16, DType::kF32, {});
  const Tensor got = args.out;
  ops::paged_attention(ctx, args);
  args.out = Tensor(got.shape(), DType::kF32);
  reference::paged_attention(args);
  EXPECT_TRUE(near(got, args.out, 8e-6, 1e-5));
}

TEST(PagedOptionsDeathTest, WhatCannotBe) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Random random;
  Context ctx(1);
  const Problem p(random, 1, 8, 2, 2);
  Options cross;
  cross.causal = false;
  cross.window_back = 4;
  EXPECT_DEATH(ops::paged_attention(ctx, p.paged(random, ctx, 16, DType::kF32, cross)),
               "window of cross-attention");
  Problem odd(random, 1, 8, 2, 1);
  odd.heads = 3;
  odd.q = random.matrix(odd.q.dim(0), 24);
  EXPECT_DEATH(ops::paged_attention(ctx, odd.paged(random, ctx, 16, DType::kF32, {})),
               "check failed");
}

}  // namespace
}  // namespace tandem::paged_options_test
