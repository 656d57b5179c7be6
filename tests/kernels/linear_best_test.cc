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

}  // namespace
}  // namespace tandem::linear_best_test
