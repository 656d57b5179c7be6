// Encoder attention with grouped heads, soft caps, windows, global tokens and keys of their own:
// the reference's values on all CPU levels, and the bits of a query whatever is beside it.
#include <algorithm>
#include <limits>

#include "tests/kernels/kernels_test_util.h"

namespace tandem::ragged_options_test {
namespace {

using testing::indices;
using testing::indptr_of;
using testing::near;
using testing::Random;
using testing::same_bits;

class RaggedOptionsTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(RaggedOptionsTest);

// Of so many keys, one sequence's behind the other's.
Tensor ranges_of(const std::vector<int32_t>& keys) {
  std::vector<int32_t> out;
  int32_t first = 0;
  for (const int32_t count : keys) {
    out.insert(out.end(), {first, first + count});
    first += count;
  }
  return indices(out).reshape({std::ssize(keys), 2});
}

std::vector<int32_t> random_lengths(Random& random, int64_t count) {
  std::vector<int32_t> lengths;
  for (; count > 0; --count)
    lengths.push_back(random.pick({0, 1, 23, 24, 63, 64, 65, 130, 250, 300}));
  return lengths;
}

ops::RaggedAttentionArgs random_args(Random& random, const std::vector<int32_t>& lengths,
                                     int head_dim) {
  const int kv_heads = static_cast<int>(random.integer(1, 2)),
            heads = kv_heads * random.pick({1, 2, 3});
  const int64_t t = indptr_of(lengths).back(), d = int64_t{kv_heads} * head_dim;
  ops::RaggedAttentionArgs args{};
  args.q = random.strided(t, int64_t{heads} * head_dim);
  args.k = random.strided(t, d);
  args.v = random.strided(t, d);
  args.indptr = indices(indptr_of(lengths));
  args.num_heads = heads;
  args.num_kv_heads = kv_heads == heads ? random.pick({0, heads}) : kv_heads;
  args.head_dim = head_dim;
  args.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  args.out = random.strided(t, int64_t{heads} * head_dim);
  args.soft_cap = random.pick({0.0f, 0.0f, 1.5f, 50.0f});
  return args;
}

// A window, and with it perhaps a bias and global tokens.
void add_window(Random& random, const std::vector<int32_t>& lengths,
                ops::RaggedAttentionArgs& args) {
  args.window = {random.pick({ops::Window::kAll, 0, 1, 16, 63, 64, 100}),
                 random.pick({ops::Window::kAll, 0, 1, 16, 63, 64, 100})};
  if (random.integer(0, 2) == 0)
    args.bias = {random.matrix(args.num_heads, random.pick({1, 7, 33, 257}), 2.0f),
                 static_cast<int32_t>(random.integer(-5, 140))};
  if (random.integer(0, 1) == 0) return;
  std::vector<int32_t> rows, counts;
  for (size_t s = 0; s < lengths.size(); ++s) {
    const int64_t one_in = random.pick({1, 3, 40});
    const size_t before = rows.size();
    for (int32_t i = 0; i < lengths[s]; ++i)
      if (random.integer(1, one_in) == 1) rows.push_back(indptr_of(lengths)[s] + i);
    counts.push_back(static_cast<int32_t>(rows.size() - before));
  }
  args.global_rows = indices(rows);
  args.global_indptr = indices(indptr_of(counts));
}

// Keys besides the sequence's own; some sequences have the same ones, some none.
void add_side(Random& random, int64_t sequences, ops::RaggedAttentionArgs& args) {
  const int64_t kv_heads = args.num_kv_heads == 0 ? args.num_heads : args.num_kv_heads;
  const int64_t rows = random.integer(1, 150);
  args.side.k = random.strided(rows, kv_heads * args.head_dim);
  args.side.v = random.strided(rows, kv_heads * args.head_dim);
  std::vector<int32_t> ranges;
  for (int64_t s = 0; s < sequences; ++s) {
    const auto begin = static_cast<int32_t>(random.integer(0, rows));
    ranges.insert(ranges.end(), {begin, static_cast<int32_t>(random.integer(begin, rows))});
  }
  args.side.ranges = indices(ranges).reshape({sequences, 2});
  args.side.unit = random.pick({1, 3, 16});
  args.global_rows = args.global_indptr = {};
}

::testing::AssertionResult matches_the_reference(Context& ctx, ops::RaggedAttentionArgs args) {
  const Tensor got = args.out;
  ops::ragged_attention(ctx, args);
  args.out = Tensor({got.dim(0), got.dim(1)}, DType::kF32);
  reference::ragged_attention(args);
  const auto result = near(got, args.out, 8e-6, 1e-5);
  return result ? result
                : ::testing::AssertionFailure()
                      << result.message() << "; window " << args.window.back << " "
                      << args.window.ahead << ", " << args.num_heads << " heads of "
                      << args.head_dim << ", " << args.num_kv_heads << " of keys, cap "
                      << args.soft_cap << ", global " << args.global_rows.size();
}

TEST_P(RaggedOptionsTest, GroupsAndCapsMatchTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 6; ++round) {
    const auto lengths = random_lengths(random, random.integer(1, 2));
    const auto args = random_args(random, lengths, random.pick({8, 14, 64, 80, 256}));
    EXPECT_TRUE(matches_the_reference(ctx, args));
  }
}

TEST_P(RaggedOptionsTest, WindowsMatchTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 30; ++round) {
    const auto lengths = random_lengths(random, random.integer(1, 3));
    auto args = random_args(random, lengths, random.pick({8, 14, 64, 80}));
    add_window(random, lengths, args);
    EXPECT_TRUE(matches_the_reference(ctx, args));
  }
}

TEST_P(RaggedOptionsTest, SideKeysMatchTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 30; ++round) {
    const auto lengths = random_lengths(random, random.integer(1, 3));
    auto args = random_args(random, lengths, random.pick({8, 14, 64, 80}));
    if (random.integer(0, 2) > 0) add_window(random, lengths, args);
    add_side(random, std::ssize(lengths), args);
    if (random.integer(0, 1) == 1)
      args.side.bias = {random.matrix(args.num_heads, random.pick({1, 7, 33}), 2.0f),
                        static_cast<int32_t>(random.integer(-5, 20))};
    EXPECT_TRUE(matches_the_reference(ctx, args)) << args.side.k.dim(0) << " side keys";
  }
}

// As queries of other tokens than the keys see them.
TEST_P(RaggedOptionsTest, SideKeysBesideKeysOfTheirOwn) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 10; ++round) {
    const auto lengths = random_lengths(random, 2);
    std::vector<int32_t> keys;
    for (const int32_t n : lengths) keys.push_back(static_cast<int32_t>(random.integer(n > 0, 90)));
    auto args = random_args(random, lengths, random.pick({8, 64}));
    const int64_t rows = indptr_of(keys).back(), width = args.k.dim(1);
    args.k = random.strided(rows, width);
    args.v = random.strided(rows, width);
    args.kv_ranges = ranges_of(keys);
    if (random.integer(0, 1) == 0 && lengths[0] > 0 && lengths[1] > 0)  // some keys of both
      args.kv_ranges = indices({0, keys[0] + 1, keys[0] - 1, keys[0] + keys[1]}).reshape({2, 2});
    add_side(random, 2, args);
    args.side.unit = 0;
    if (random.integer(0, 1) == 1) args.side.bias = {random.matrix(args.num_heads, 40, 2.0f), 3};
    EXPECT_TRUE(matches_the_reference(ctx, args));
  }
}

TEST_P(RaggedOptionsTest, QueriesWithKeysOfTheirOwn) {
  Random random;
  Context ctx(2), one(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<int32_t> lengths = random_lengths(random, 3);
    lengths.push_back(static_cast<int32_t>(random.integer(1, 24)));  // few
    std::vector<int32_t> keys;
    for (const int32_t n : lengths) keys.push_back(static_cast<int32_t>(random.integer(n > 0, 90)));
    auto args = random_args(random, lengths, random.pick({8, 64}));
    const int64_t rows = indptr_of(keys).back(), width = args.k.dim(1);
    const Tensor both = random.strided(rows, 2 * width);
    args.k = both.columns(0, width);
    args.v = random.integer(0, 1) ? both.columns(width, 2 * width) : random.strided(rows, width);
    args.kv_ranges = ranges_of(keys);
    EXPECT_TRUE(matches_the_reference(ctx, args));
    const int32_t q0 = indptr_of(lengths)[3], k0 = indptr_of(keys)[3];
    ops::RaggedAttentionArgs alone = args;
    alone.q = args.q.rows(q0, args.q.dim(0));
    alone.k = args.k.rows(k0, rows);
    alone.v = args.v.rows(k0, rows);
    alone.indptr = indices({0, lengths[3]});
    alone.kv_ranges = ranges_of({keys[3]});
    alone.out = Tensor({lengths[3], args.q.dim(1)}, DType::kF32);
    ops::ragged_attention(one, alone);
    EXPECT_TRUE(same_bits(alone.out, args.out.rows(q0, args.q.dim(0))));
  }
}

// Blocks that see their neighbours' keys, which a task packs for several of them: a block has the
// bits that it has alone, whichever of its neighbours could share its task.
TEST_P(RaggedOptionsTest, NeighboursShareWhatIsPacked) {
  Random random;
  Context ctx(2), one(1);
  for (int round = 0; round < 3; ++round) {
    constexpr int32_t kBlocks = 22;
    const int32_t block = random.pick({64, 64, 48});
    std::vector<int32_t> lengths, keys, sides;
    const int32_t odd = static_cast<int32_t>(random.integer(1, kBlocks - 2)),
                  other = static_cast<int32_t>(random.integer(1, kBlocks - 2));
    for (int32_t i = 0; i < kBlocks; ++i) {
      lengths.push_back(i == odd ? block - 1 : block);
      const int32_t first = std::max(0, i - 1) * block + (i == odd ? 1 : 0);
      keys.insert(keys.end(), {first, std::min(kBlocks, i + 2) * block});
      sides.insert(sides.end(), {0, i == other ? 50 : 70});
    }
    auto args = random_args(random, lengths, random.pick({8, 20}));
    args.num_heads = 6;
    args.num_kv_heads = random.pick({2, 6});
    const int64_t width = int64_t{args.num_kv_heads} * args.head_dim;
    args.q = random.strided(indptr_of(lengths).back(), int64_t{args.num_heads} * args.head_dim);
    args.k = random.strided(int64_t{kBlocks} * block, width);
    args.v = random.strided(int64_t{kBlocks} * block, width);
    args.out = random.strided(args.q.dim(0), args.q.dim(1));
    args.kv_ranges = indices(keys).reshape({kBlocks, 2});
    args.side = {.k = random.strided(70, width),
                 .v = random.strided(70, width),
                 .ranges = indices(sides).reshape({kBlocks, 2}),
                 .bias = {},
                 .unit = 0};
    ASSERT_TRUE(matches_the_reference(ctx, args));
    const std::vector<int32_t> at = indptr_of(lengths);
    for (int32_t i = 0; i < kBlocks; ++i) {
      ops::RaggedAttentionArgs alone = args;
      const auto s = static_cast<size_t>(i);
      alone.q = args.q.rows(at[s], at[s + 1]);
      alone.indptr = indices({0, lengths[s]});
      alone.kv_ranges = args.kv_ranges.rows(i, i + 1);
      alone.side.ranges = args.side.ranges.rows(i, i + 1);
      alone.out = Tensor({lengths[s], args.q.dim(1)}, DType::kF32);
      ops::ragged_attention(one, alone);
      ASSERT_TRUE(same_bits(alone.out, args.out.rows(at[s], at[s + 1]))) << "block " << i;
    }
  }
}

// A sequence alone gives the bits that it has in a batch, for any number of threads.
TEST_P(RaggedOptionsTest, AreBatchInvariant) {
  Random random;
  Context one(1), three(3);
  for (int round = 0; round < 12; ++round) {
    const auto lengths = random_lengths(random, 4);
    auto args = random_args(random, lengths, random.pick({14, 64}));
    add_window(random, lengths, args);
    if (round % 2 == 0) add_side(random, std::ssize(lengths), args);
    ops::ragged_attention(three, args);
    const std::vector<int32_t> at = indptr_of(lengths);
    for (size_t s = 0; s < lengths.size(); ++s) {
      ops::RaggedAttentionArgs alone = args;
      for (Tensor* t : {&alone.q, &alone.k, &alone.v}) *t = t->rows(at[s], at[s + 1]);
      alone.indptr = indices({0, lengths[s]});
      if (!args.side.ranges.empty()) {
        const auto at_side = static_cast<int64_t>(s);
        alone.side.ranges = args.side.ranges.rows(at_side, at_side + 1);
      }
      if (!args.global_rows.empty()) {
        const int32_t* global = args.global_indptr.data<int32_t>();
        std::vector<int32_t> rows(args.global_rows.data<int32_t>() + global[s],
                                  args.global_rows.data<int32_t>() + global[s + 1]);
        for (int32_t& row : rows) row -= at[s];
        alone.global_rows = indices(rows);
        alone.global_indptr = indices({0, static_cast<int32_t>(rows.size())});
      }
      alone.out = Tensor({lengths[s], args.q.dim(1)}, DType::kF32);
      ops::ragged_attention(one, alone);
      EXPECT_TRUE(same_bits(alone.out, args.out.rows(at[s], at[s + 1])));
    }
  }
}

// A key outside the windows of the queries that are taken together, and of the panels these begin
// in, is in no product: it may be NaN.
TEST_P(RaggedOptionsTest, KeysOutsideTheWindowsAreNotMultiplied) {
  Random random;
  Context ctx(2);
  auto args = random_args(random, {700}, 64);
  args.window = {10, 10};
  args.global_rows = indices({3, 690});
  args.global_indptr = indices({0, 2});
  ops::ragged_attention(ctx, args);
  const Tensor before = args.out;
  args.out = Tensor({700, args.q.dim(1)}, DType::kF32);
  for (const Tensor& t : {args.k, args.v})
    for (int64_t row = 0; row < 700; ++row)
      if ((row < 448 || row >= 514) && row != 3 && row != 690)
        std::fill_n(t.row<float>(row), t.dim(1), std::numeric_limits<float>::quiet_NaN());
  ops::ragged_attention(ctx, args);
  EXPECT_TRUE(same_bits(args.out.rows(480, 504), before.rows(480, 504)));
  EXPECT_TRUE(std::isnan(args.out.row<float>(300)[0]));
}

TEST_P(RaggedOptionsTest, AWindowOfAllKeysIsNone) {
  Random random;
  Context ctx(2);
  auto args = random_args(random, {130, 7, 64}, 64);
  ops::ragged_attention(ctx, args);
  const Tensor all = args.out;
  args.out = Tensor({all.dim(0), all.dim(1)}, DType::kF32);
  args.window = {129, ops::Window::kAll};
  ops::ragged_attention(ctx, args);
  EXPECT_TRUE(same_bits(args.out, all));
}

TEST(RaggedOptions, LevelsGiveTheSameBits) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 12; ++round) {
    const auto lengths = random_lengths(random, 2);
    auto args = random_args(random, lengths, random.pick({14, 64, 80}));
    if (round % 3 != 0) add_window(random, lengths, args);
    if (round % 2 != 0) add_side(random, std::ssize(lengths), args);
    Tensor first;
    for (const CpuIsa isa : testing::available_isas()) {
      set_cpu_isa(isa);
      args.out = Tensor({args.q.dim(0), args.q.dim(1)}, DType::kF32);
      ops::ragged_attention(ctx, args);
      if (first.empty()) first = args.out;
      EXPECT_TRUE(same_bits(args.out, first)) << name_of(isa);
    }
    set_cpu_isa(best_cpu_isa());
  }
}

TEST(RaggedOptionsDeathTest, WhatCannotBe) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Random random;
  Context ctx(1);
  const auto good = random_args(random, {5, 6}, 8);
  auto args = good;
  args.global_rows = indices({7});  // of the second sequence
  args.global_indptr = indices({0, 1, 1});
  EXPECT_DEATH(ops::ragged_attention(ctx, args), "check failed");
  args = good;
  args.side = {good.k, good.v, indices({0, 11, 3, 12}).reshape({2, 2})};  // there are 11 rows
  EXPECT_DEATH(ops::ragged_attention(ctx, args), "check failed");
  args.side.ranges = indices({0, 11, 3, 11}).reshape({2, 2});
  args.global_rows = indices({7});
  args.global_indptr = indices({0, 0, 1});
  EXPECT_DEATH(ops::ragged_attention(ctx, args), "global tokens and side keys");
  args = good;
  args.kv_ranges = ranges_of({5, 6});
  args.window.back = 3;
  EXPECT_DEATH(ops::ragged_attention(ctx, args), "places among the keys");
  args = good;
  args.num_kv_heads = 5;
  EXPECT_DEATH(ops::ragged_attention(ctx, args), "check failed");
}

}  // namespace
}  // namespace tandem::ragged_options_test
