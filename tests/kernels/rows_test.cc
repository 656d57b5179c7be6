// Ops on rows: embedding, layer_norm, gated_activation, gather_rows, scatter_rows,
// combine_rows, sum_ranges, soft_cap.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/kernels_test_util.h"

namespace tandem::rows_test {
namespace {

using testing::indices;
using testing::near;
using testing::Random;
using testing::same_bits;

class RowsTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(RowsTest);

// How much larger a row's values are than their distances from the mean: rounding grows by it.
double cancellation(const ops::LayerNormArgs& args, int64_t row) {
  const int64_t d = args.x.dim(1);
  std::vector<double> h(args.x.row<float>(row), args.x.row<float>(row) + d);
  if (!args.residual.empty())
    for (int64_t j = 0; j < d; ++j) h[static_cast<size_t>(j)] += args.residual.row<float>(row)[j];
  double mean = 0, variance = 0, largest = 0;
  for (const double x : h) mean += x / static_cast<double>(d);
  for (const double x : h) {
    variance += (x - mean) * (x - mean) / static_cast<double>(d);
    largest = std::max(largest, std::abs(x));
  }
  return d == 1 ? 1 : largest / std::sqrt(variance + args.eps);
}

TEST_P(RowsTest, LayerNormMatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 60; ++round) {
    const int64_t t = random.integer(1, 50);
    const int64_t d = random.pick<int64_t>({1, 3, 8, 15, 16, 17, 31, 56, 72, 200, 768});
    ops::LayerNormArgs args{random.strided(t, d), {},    random.vector(d),
                            random.vector(d),     1e-5f, {}};
    if (random.integer(0, 1)) args.residual = random.strided(t, d);
    for (int64_t i = 0; i < t; ++i) args.x.row<float>(i)[0] += 3;  // a mean that matters
    Tensor expected({t, d}, DType::kF32);
    args.out = expected;
    reference::layer_norm(args);
    args.out = random.strided(t, d);
    ops::layer_norm(ctx, args);
    for (int64_t i = 0; i < t; ++i) {
      const double bound = 2e-6 * std::max(1.0, cancellation(args, i) / 8);
      EXPECT_TRUE(near(args.out.rows(i, i + 1), expected.rows(i, i + 1), bound, bound))
          << t << " x " << d << ", row " << i;
    }

    const Tensor apart = args.out;
    const int64_t row = random.integer(0, t - 1);
    ops::LayerNormArgs alone = args;
    alone.x = args.x.rows(row, row + 1);
    if (!args.residual.empty()) alone.residual = args.residual.rows(row, row + 1);
    alone.out = Tensor({1, d}, DType::kF32);
    ops::layer_norm(ctx, alone);
    EXPECT_TRUE(same_bits(alone.out, apart.rows(row, row + 1)));

    // With the sum beside it, the residual's or one of its own.
    Tensor sum({t, d}, DType::kF32);
    for (int64_t i = 0; i < t; ++i)
      for (int64_t j = 0; j < d; ++j)
        sum.row<float>(i)[j] =
            args.x.row<float>(i)[j] + (args.residual.empty() ? 0 : args.residual.row<float>(i)[j]);
    ops::LayerNormArgs summing = args;
    summing.out = random.strided(t, d);
    summing.sum = random.strided(t, d);
    ops::layer_norm(ctx, summing);
    EXPECT_TRUE(same_bits(summing.sum, sum));
    EXPECT_TRUE(same_bits(summing.out, apart));

    args.out = args.residual.empty() || random.integer(0, 1) ? args.x : args.residual;
    ops::layer_norm(ctx, args);  // in place
    EXPECT_TRUE(same_bits(args.out, apart));
  }
}

TEST_P(RowsTest, RmsNormMatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 40; ++round) {
    const int64_t t = random.integer(1, 50);
    const int64_t d = random.pick<int64_t>({1, 3, 8, 15, 16, 17, 31, 56, 72, 200, 768});
    ops::LayerNormArgs args{random.strided(t, d), {}, random.vector(d), {}, 1e-6f, {}};
    args.rms = true;
    if (random.integer(0, 1)) args.residual = random.strided(t, d);
    for (int64_t i = 0; i < t; ++i) args.x.row<float>(i)[0] += 3;  // a mean that stays
    const Tensor want({t, d}, DType::kF32), want_sum({t, d}, DType::kF32);
    args.out = want;
    args.sum = want_sum;
    reference::layer_norm(args);
    args.out = random.strided(t, d);
    args.sum = Tensor();
    ops::layer_norm(ctx, args);
    const Tensor apart = args.out;
    EXPECT_TRUE(near(apart, want, 2e-6, 2e-6)) << t << " x " << d;

    args.out = random.strided(t, d);
    args.sum = random.strided(t, d);
    ops::layer_norm(ctx, args);
    EXPECT_TRUE(same_bits(args.out, apart));
    EXPECT_TRUE(same_bits(args.sum, want_sum));
    args.sum = Tensor();
    args.out = args.residual.empty() || random.integer(0, 1) ? args.x : args.residual;
    ops::layer_norm(ctx, args);  // in place
    EXPECT_TRUE(same_bits(args.out, apart));
  }
}

// Groups of a row have the bits that they have as rows.
TEST_P(RowsTest, NormsOfGroups) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 30; ++round) {
    const int64_t t = random.integer(1, 30), d = random.pick<int64_t>({1, 8, 17, 64, 72, 256});
    const int groups = static_cast<int>(random.integer(1, 5));
    const bool rms = random.integer(0, 1) == 1;
    ops::LayerNormArgs args{random.strided(t, groups * d),
                            {},
                            random.vector(d),
                            rms ? Tensor() : random.vector(d),
                            1e-3f,
                            random.strided(t, groups * d),
                            {},
                            rms,
                            groups};
    ops::layer_norm(ctx, args);
    const Tensor got = args.out;
    args.out = Tensor({t, groups * d}, DType::kF32);
    reference::layer_norm(args);
    EXPECT_TRUE(near(got, args.out, 2e-5, 2e-5)) << t << " x " << groups << " x " << d;
    for (int g = 0; g < groups; ++g) {
      ops::LayerNormArgs alone = args;
      alone.x = args.x.columns(g * d, (g + 1) * d);
      alone.out = Tensor({t, d}, DType::kF32);
      alone.groups = 1;
      ops::layer_norm(ctx, alone);
      EXPECT_TRUE(same_bits(got.columns(g * d, (g + 1) * d), alone.out));
    }
    args.out = args.x;
    ops::layer_norm(ctx, args);  // in place
    EXPECT_TRUE(same_bits(args.out, got));
  }
}

TEST_P(RowsTest, SoftCapMatchesTheReference) {
  Random random;
  Context one(1), three(3);
  for (const int64_t d : {1, 7, 16, 31, 300, 8191, 8192, 20011}) {
    const int64_t t = random.integer(1, 5);
    const float cap = random.pick({0.5f, 30.0f, 50.0f});
    const Tensor x = random.strided(t, d, 40.0f), want({t, d}, DType::kF32);
    for (int64_t i = 0; i < t; ++i) std::copy_n(x.row<float>(i), d, want.row<float>(i));
    const Tensor row({1, d}, DType::kF32);
    std::copy_n(x.row<float>(t - 1), d, row.row<float>(0));
    ops::soft_cap(three, {x, cap});
    reference::soft_cap({want, cap});
    EXPECT_TRUE(near(x, want, 1e-7, 4e-7)) << d << ", cap " << cap;
    ops::soft_cap(one, {row, cap});
    EXPECT_TRUE(same_bits(row, x.rows(t - 1, t)));
  }
}

TEST_P(RowsTest, GatedActivationMatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int a = 0; a < kNumActivations; ++a)
    for (const int64_t d : {1, 3, 15, 16, 17, 80, 333, 2048}) {
      const auto activation = static_cast<Activation>(a);
      const int64_t t = random.integer(1, 40);
      // As the layers have it: both in one matrix.
      const Tensor both = random.strided(t, 2 * d);
      ops::GatedActivationArgs args{both.columns(0, d), both.columns(d, 2 * d), activation, {}};
      const Tensor want({t, d}, DType::kF32), apart = random.strided(t, d);
      args.out = want;
      reference::gated_activation(args);
      args.out = apart;
      ops::gated_activation(ctx, args);
      EXPECT_TRUE(near(apart, want, 2e-6, 2e-6)) << static_cast<int>(activation) << " " << d;
      args.out = args.gate;
      ops::gated_activation(ctx, args);  // in place
      EXPECT_TRUE(same_bits(args.gate, apart)) << static_cast<int>(activation) << " " << d;
    }
}

TEST(RowsDeathTest, AnRmsNormHasNoBias) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Context ctx(1);
  const Tensor x = Tensor::zeros({2, 8}, DType::kF32), weight = Tensor::zeros({8}, DType::kF32);
  EXPECT_DEATH(ops::layer_norm(ctx, {x, {}, weight, weight, 1e-6f, x, {}, true}), "check failed");
}

TEST(Rows, LevelsGiveTheSameBits) {
  Random random;
  Context ctx(1);
  for (int64_t d : {5, 16, 40, 100, 768}) {
    const ops::LayerNormArgs args{
        random.matrix(3, d), random.matrix(3, d), random.vector(d), random.vector(d), 1e-5f, {}};
    Tensor first, first_rms, first_gated;
    for (CpuIsa isa : testing::available_isas()) {
      set_cpu_isa(isa);
      ops::LayerNormArgs a = args, rms = args;
      a.out = Tensor({3, d}, DType::kF32);
      ops::layer_norm(ctx, a);
      rms.out = Tensor({3, d}, DType::kF32);
      rms.bias = Tensor();
      rms.rms = true;
      ops::layer_norm(ctx, rms);
      const Tensor gated({3, d}, DType::kF32);
      ops::gated_activation(ctx, {args.x, args.residual, Activation::kGeluTanh, gated});
      if (first.empty()) first = a.out, first_rms = rms.out, first_gated = gated;
      EXPECT_TRUE(same_bits(a.out, first)) << name_of(isa);
      EXPECT_TRUE(same_bits(rms.out, first_rms)) << name_of(isa);
      EXPECT_TRUE(same_bits(gated, first_gated)) << name_of(isa);
    }
    set_cpu_isa(best_cpu_isa());
  }
}

TEST(Embedding, MatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 40; ++round) {
    const int64_t t = random.integer(1, 30), d = random.pick<int64_t>({1, 8, 56, 100});
    ops::EmbeddingArgs args;
    args.tokens = random.strided(20, d);
    args.positions = random.matrix(12, d);
    if (random.integer(0, 1)) args.tokens = testing::to_bf16(random.matrix(20, d));
    if (random.integer(0, 1)) args.positions = testing::to_bf16(args.positions);
    if (random.integer(0, 2) == 0) args.positions = Tensor();
    args.scale = random.pick({1.0f, 7.5f});
    args.position_offset = 2;
    args.first_id = random.pick({0, 40});
    std::vector<int32_t> ids, positions;
    for (int64_t i = 0; i < t; ++i) {
      ids.push_back(static_cast<int32_t>(args.first_id + random.integer(-3, 22)));  // some outside
      positions.push_back(static_cast<int32_t>(random.integer(-2, 9)));
    }
    args.ids = indices(ids);
    args.position_ids = indices(positions);
    Tensor expected({t, d}, DType::kF32);
    args.out = expected;
    reference::embedding(args);
    args.out = random.strided(t, d);
    ops::embedding(ctx, args);
    EXPECT_TRUE(near(args.out, expected, 1e-6, 1e-6));
  }
}

// With a norm: the bits of one op after the other.
TEST_P(RowsTest, EmbeddingWithItsNorm) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 20; ++round) {
    const int64_t t = random.integer(1, 30), d = random.pick<int64_t>({1, 8, 17, 56, 100});
    ops::EmbeddingArgs args;
    args.tokens = random.strided(20, d);
    if (random.integer(0, 1)) args.positions = random.matrix(40, d);
    std::vector<int32_t> ids, positions(static_cast<size_t>(t));
    for (int64_t i = 0; i < t; ++i) ids.push_back(static_cast<int32_t>(random.integer(-1, 20)));
    std::iota(positions.begin(), positions.end(), 0);
    args.ids = indices(ids);
    args.position_ids = indices(positions);
    args.out = Tensor({t, d}, DType::kF32);
    ops::embedding(ctx, args);
    const Tensor weight = random.vector(d), bias = random.vector(d), want = args.out;
    ops::layer_norm(ctx, {want, {}, weight, bias, 1e-3f, want});
    args.norm_weight = weight;
    args.norm_bias = bias;
    args.norm_eps = 1e-3f;
    args.out = random.strided(t, d);
    ops::embedding(ctx, args);
    EXPECT_TRUE(same_bits(args.out, want)) << t << " x " << d;
    args.out = Tensor({t, d}, DType::kF32);
    reference::embedding(args);
    EXPECT_TRUE(near(want, args.out, 1e-5, 1e-5)) << t << " x " << d;
  }
}

TEST(EmbeddingDeathTest, PositionsOutsideTheTable) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Context ctx(1);
  const Tensor table = Tensor::zeros({4, 8}, DType::kF32);
  ops::EmbeddingArgs args{
      indices({0}), indices({3}), table, table, 1.0f, 2, 0, Tensor({1, 8}, DType::kF32)};
  EXPECT_DEATH(ops::embedding(ctx, args), "check failed");
}

TEST(GatherRows, CopiesRows) {
  Random random;
  Context ctx(2);
  const Tensor x = random.strided(50, 33), out = random.strided(70, 33);
  std::vector<int32_t> rows;
  for (int i = 0; i < 70; ++i) rows.push_back(static_cast<int32_t>(random.integer(0, 49)));
  ops::gather_rows(ctx, {x, indices(rows), out});
  for (int64_t i = 0; i < 70; ++i)
    EXPECT_TRUE(same_bits(out.rows(i, i + 1),
                          x.rows(rows[static_cast<size_t>(i)], rows[static_cast<size_t>(i)] + 1)));
  ops::gather_rows(ctx, {x, indices({}), Tensor({0, 33}, DType::kF32)});
}

TEST(ScatterRows, WritesTheRowsThatAreNamed) {
  Random random;
  Context ctx(2);
  const Tensor x = random.strided(20, 33), out = random.strided(50, 33),
               before({50, 33}, DType::kF32);
  for (int64_t i = 0; i < 50; ++i) std::copy_n(out.row<float>(i), 33, before.row<float>(i));
  std::vector<int32_t> rows(50);
  std::iota(rows.begin(), rows.end(), 0);
  std::shuffle(rows.begin(), rows.end(), random.engine());
  const std::vector<int32_t> named(rows.begin(), rows.begin() + 20);
  ops::scatter_rows(ctx, {x, indices(named), out});
  for (size_t i = 0; i < 50; ++i) {
    const int64_t row = rows[i], from = static_cast<int64_t>(i);
    EXPECT_TRUE(same_bits(out.rows(row, row + 1),
                          i < 20 ? x.rows(from, from + 1) : before.rows(row, row + 1)));
  }
  ops::scatter_rows(ctx, {Tensor({0, 33}, DType::kF32), indices({}), out});
}

TEST(CombineRows, MatchTheReference) {
  Random random;
  Context ctx(2);
  for (const int64_t size : {1, 16, 33})
    for (const int64_t each : {1, 2, 3}) {
      const Tensor x = random.strided(20, size), out = random.strided(50, size),
                   want({50, size}, DType::kF32), factors = random.matrix(50, each);
      std::vector<int32_t> places;
      for (int64_t i = 0; i < 50 * each; ++i)
        places.push_back(static_cast<int32_t>(random.integer(-1, 19)));
      const Tensor listed = indices(places).reshape({50, each});
      ops::combine_rows(ctx, {x, listed, factors, out});
      reference::combine_rows({x, listed, factors, want});
      EXPECT_TRUE(testing::near(out, want, 1e-6, 1e-5)) << size << " " << each;
    }
}

TEST(SumRanges, MatchTheReference) {
  Random random;
  Context ctx(2);
  for (const int64_t size : {1, 16, 33}) {
    const Tensor x = random.strided(60, size), out = random.strided(25, size),
                 want({25, size}, DType::kF32);
    std::vector<int32_t> ranges;
    for (int i = 0; i < 25; ++i) {
      const auto begin = static_cast<int32_t>(random.integer(0, 59));
      ranges.insert(ranges.end(), {begin, static_cast<int32_t>(random.integer(begin + 1, 60))});
    }
    const Tensor listed = indices(ranges).reshape({25, 2});
    ops::sum_ranges(ctx, {x, listed, out});
    reference::sum_ranges({x, listed, want});
    EXPECT_TRUE(testing::near(out, want, 1e-5, 1e-5)) << size;
  }
}

TEST(SumRangesDeathTest, WhatCannotBe) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Context ctx(1);
  const Tensor x({4, 3}, DType::kF32), out({1, 3}, DType::kF32);
  for (const auto& range : {std::vector<int32_t>{2, 2}, {3, 5}, {-1, 1}})
    EXPECT_DEATH(ops::sum_ranges(ctx, {x, indices(range).reshape({1, 2}), out}), "check failed");
}

}  // namespace
}  // namespace tandem::rows_test
