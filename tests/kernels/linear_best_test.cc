// The CPU's head without logits: tokens, logits and log-sums bit for bit those of rows of linear(),
// in every type, with a soft cap and without, over ties, NaNs and infinities, however the work is
// cut.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/row_math.h"
#include "tests/kernels/best_problem.h"

namespace tandem::linear_best_test {
namespace {

using testing::indices;
using testing::Random;
using testing::repeat_rows;
using testing::some_bias;
using testing::some_cap;
using testing::some_rows;
using testing::view_of;

class LinearBestTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(LinearBestTest);

struct Case {
  int64_t rows, in, out;
  DType dtype;
  int threads;
  bool bias, ties;
  float cap = 0.0f;
};

bool same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(a)) == 0;
}

void check(Random& random, const Case& c) {
  SCOPED_TRACE(::testing::Message() << name_of(c.dtype) << ", " << c.rows << " x " << c.in << " x "
                                    << c.out << ", " << c.threads << " threads, cap " << c.cap);
  Context ctx(c.threads);
  const int64_t all_rows = c.rows + 3;
  const Tensor x = random.strided(all_rows, c.in), w = random.matrix(c.out, c.in);
  if (c.ties) repeat_rows(random, w);
  const Tensor bias = c.bias ? some_bias(random, c.out) : Tensor();
  const std::vector<int32_t> rows = some_rows(random, c.rows, all_rows);
  const MatrixView view = view_of(w);
  const PackedWeight packed(ctx, {&view, 1}, c.dtype);

  const Tensor logits({all_rows, c.out}, DType::kF32);
  ops::linear(ctx, {&packed, x, bias, Activation::kNone, logits});
  if (c.cap > 0) ops::soft_cap(ctx, {logits, c.cap});
  const Tensor log_sums({c.rows}, DType::kF32), values({c.rows, 1}, DType::kF32),
      ids({c.rows, 1}, DType::kI32), best({c.rows + 1}, DType::kI32);
  ops::linear_best(ctx, {&packed, x, indices(rows), bias, log_sums, ids, values, best, c.cap});
  for (int64_t i = 0; i < c.rows; ++i) {
    const std::span<const float> row(logits.row<float>(rows[static_cast<size_t>(i)]),
                                     static_cast<size_t>(c.out));
    const int32_t id = argmax(row);
    ASSERT_EQ(ids.data<int32_t>()[i], id) << "row " << i;
    ASSERT_EQ(best.data<int32_t>()[i], id);
    ASSERT_TRUE(same(values.data<float>()[i], row[static_cast<size_t>(id)])) << "row " << i;
    const auto sum = static_cast<float>(log_sum_exp(row));
    ASSERT_TRUE(same(log_sums.data<float>()[i], sum))
        << log_sums.data<float>()[i] << ", not " << sum;
  }
}

TEST_P(LinearBestTest, IsLinearAndTheBestOfEachRow) {
  Random random;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4})
    for (int round = 0; round < 25; ++round)
      check(random, {random.pick<int64_t>({1, 2, 3, 7, 8, 13, 33, 100}), random.integer(1, 90),
                     random.pick<int64_t>({1, 5, 63, 64, 65, 128, 500, 1500}), dtype,
                     static_cast<int>(random.integer(1, 4)), random.integer(0, 2) > 0,
                     random.integer(0, 1) == 0, some_cap(random)});
}

// Many tasks for each thread, and more logits than a task has room for.
TEST_P(LinearBestTest, LargeVocabularies) {
  Random random;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
    check(random, {1, 16, 30011, dtype, 3, true, true});
    check(random, {3, 16, 30011, dtype, 2, false, true, 0.2f});
    check(random, {40, 24, 9001, dtype, 2, true, false, 30.0f});
  }
}

struct Said {
  Tensor log_sums, ids, values, best;
  explicit Said(int64_t rows)
      : log_sums({rows}, DType::kF32),
        ids({rows, 1}, DType::kI32),
        values({rows, 1}, DType::kF32),
        best({rows + 1}, DType::kI32) {}
};

void expect_near(const Said& got, const Said& want) {
  for (int64_t i = 0; i < want.ids.dim(0); ++i) {
    EXPECT_EQ(got.ids.data<int32_t>()[i], want.ids.data<int32_t>()[i]) << "row " << i;
    EXPECT_EQ(got.best.data<int32_t>()[i], got.ids.data<int32_t>()[i]) << "row " << i;
    EXPECT_TRUE(same(got.values.data<float>()[i], want.values.data<float>()[i])) << "row " << i;
    const float sum = got.log_sums.data<float>()[i], expected = want.log_sums.data<float>()[i];
    if (std::isfinite(expected)) {
      EXPECT_NEAR(sum, expected, 1e-6 * (1 + std::abs(expected))) << "row " << i;
    } else {
      EXPECT_TRUE(same(sum, expected)) << sum << ", not " << expected;
    }
  }
}

TEST(JoinBest, MatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int64_t parts = 1; parts <= 8; ++parts)
    for (const int64_t rows : {1, 7, 130}) {
      SCOPED_TRACE(::testing::Message() << parts << " parts of " << rows << " rows");
      const testing::PartsProblem p = testing::some_parts(random, parts, rows);
      const Said got(rows), want(rows);
      ops::join_best(ctx,
                     {p.ids, p.values, p.log_sums, got.log_sums, got.ids, got.values, got.best});
      reference::join_best(
          {p.ids, p.values, p.log_sums, want.log_sums, want.ids, want.values, want.best});
      expect_near(got, want);
    }
}

// Products with parts of a vocabulary, joined, are the product with all of it.
TEST(JoinBest, PartsOfAVocabulary) {
  Random random;
  Context ctx(2);
  for (int64_t parts = 1; parts <= 8; ++parts) {
    const int64_t rows = random.integer(1, 20), in = random.integer(1, 50),
                  out = random.integer(8, 700);
    SCOPED_TRACE(::testing::Message()
                 << parts << " parts, " << rows << " x " << in << " x " << out);
    const Tensor x = random.matrix(rows, in), w = random.matrix(out, in);
    repeat_rows(random, w);
    const Tensor bias = some_bias(random, out);
    const float cap = some_cap(random);
    const std::vector<int32_t> all = some_rows(random, rows, rows);
    const Tensor ids({parts, rows}, DType::kI32), values({parts, rows}, DType::kF32),
        log_sums({parts, rows}, DType::kF32);
    const auto run = [&](int64_t begin, int64_t end, const Said& said) {
      const MatrixView view = view_of(w.rows(begin, end));
      const PackedWeight packed(ctx, {&view, 1}, DType::kF32);
      ops::linear_best(ctx, {&packed, x, indices(all), bias.rows(begin, end), said.log_sums,
                             said.ids, said.values, said.best, cap, static_cast<int32_t>(begin)});
    };
    for (int64_t part = 0; part < parts; ++part) {
      const Said said(rows);
      run(part * out / parts, (part + 1) * out / parts, said);
      std::copy_n(said.ids.data<int32_t>(), rows, ids.row<int32_t>(part));
      std::copy_n(said.values.data<float>(), rows, values.row<float>(part));
      std::copy_n(said.log_sums.data<float>(), rows, log_sums.row<float>(part));
      EXPECT_EQ(*said.best.data<int32_t>(), *said.ids.data<int32_t>());
    }
    const Said got(rows), want(rows);
    ops::join_best(ctx, {ids, values, log_sums, got.log_sums, got.ids, got.values, got.best});
    run(0, out, want);
    expect_near(got, want);
  }
}

TEST(JoinBestDeathTest, WhatCannotBe) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Context ctx(1);
  const Tensor ids({2, 3}, DType::kI32), values({2, 3}, DType::kF32);
  const Said said(3);
  EXPECT_DEATH(
      ops::join_best(ctx, {ids, values.rows(0, 1), values, said.log_sums, said.ids, said.values}),
      "check failed");
  EXPECT_DEATH(ops::join_best(ctx, {ids.rows(0, 0), values.rows(0, 0), values.rows(0, 0),
                                    said.log_sums, said.ids, said.values}),
               "check failed");
}

}  // namespace
}  // namespace tandem::linear_best_test
