// linear_best of the CUDA device: the same tokens and logits, bit for bit, as linear and select,
// and the CPU's, over ties, NaNs and infinities, one launch after the other.
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/kernels/best_problem.h"
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::indices;
using testing::kActivations;
using testing::Random;
using testing::repeat_rows;
using testing::rounded;
using testing::some_bias;
using testing::some_rows;
using testing::to_device;

struct Said {
  Tensor log_sums, ids, values, best;
  Said(int64_t rows, const std::function<Tensor(const Shape&, DType)>& make)
      : log_sums(make({rows}, DType::kF32)),
        ids(make({rows, 1}, DType::kI32)),
        values(make({rows, 1}, DType::kF32)),
        best(make({rows + 2}, DType::kI32)) {}
  Said here(Context& ctx) const {
    Said out = *this;
    for (Tensor* t : {&out.log_sums, &out.ids, &out.values, &out.best}) *t = ctx.on_host(*t);
    return out;
  }
};

void expect_same(const Said& got, const Said& want, bool bits) {
  for (int64_t i = 0; i < want.ids.dim(0); ++i) {
    EXPECT_EQ(got.ids.data<int32_t>()[i], want.ids.data<int32_t>()[i]) << "row " << i;
    EXPECT_EQ(got.best.data<int32_t>()[i], got.ids.data<int32_t>()[i]);
    const float value = got.values.data<float>()[i], other = want.values.data<float>()[i];
    EXPECT_TRUE(!bits || std::memcmp(&value, &other, sizeof(value)) == 0)
        << value << ", not " << other;
    const float sum = got.log_sums.data<float>()[i], expected = want.log_sums.data<float>()[i];
    if (std::isfinite(expected)) {
      EXPECT_NEAR(sum, expected, 1e-5 * (1 + std::abs(expected)));
    } else {
      EXPECT_TRUE(sum == expected || (std::isnan(sum) && std::isnan(expected))) << sum;
    }
  }
}

struct Case {
  int64_t rows, in, out, step;  // step: multiple that gaps between rows are of
  bool bias, ties;
};

void check(Random& random, Context& ctx, const Case& c) {
  SCOPED_TRACE(::testing::Message()
               << name_of(ctx.activations()) << ", " << c.rows << " x " << c.in << " x " << c.out);
  const DType dtype = ctx.activations();
  const int64_t all_rows = c.rows + 3;
  const Tensor x = rounded(random.matrix(all_rows, c.in), dtype),
               w = rounded(random.matrix(c.out, c.in), dtype);
  if (c.ties) repeat_rows(random, w);
  const Tensor bias = c.bias ? some_bias(random, c.out) : Tensor();
  const std::vector<int32_t> rows = some_rows(random, c.rows, all_rows);
  const MatrixView view = testing::view_of(w);
  const PackedWeight packed(ctx, {&view, 1}, dtype);
  const DeviceMatrix there(ctx, random, x, dtype, c.step);
  const auto on_device = [&](const Shape& shape, DType type) {
    return ctx.backend().allocate(shape, type);
  };
  const Tensor which = to_device(ctx, indices(rows)),
               shift = c.bias ? to_device(ctx, bias) : Tensor();
  const Said got(c.rows, on_device), want(c.rows, on_device);
  for (int turn = 0; turn < 2; ++turn)  // the ticket is left as it was
    ops::linear_best(
        ctx, {&packed, there.tensor(), which, shift, got.log_sums, got.ids, got.values, got.best});
  const Tensor chosen = on_device({c.rows, c.in}, dtype),
               logits = on_device({c.rows, c.out}, DType::kF32);
  ops::gather_rows(ctx, {there.tensor(), which, chosen});
  ops::linear(ctx, {&packed, chosen, shift, Activation::kNone, logits});
  const Tensor zeros = to_device(ctx, indices(std::vector<int32_t>(c.rows + 1, 0)));
  const Tensor nothing = on_device({0, 3}, DType::kI32), none = on_device({0}, DType::kF32);
  ops::select(ctx, {logits, zeros.rows(0, c.rows), zeros, nothing, 1, want.log_sums, none, want.ids,
                    want.values, want.best});
  expect_same(got.here(ctx), want.here(ctx), true);

  Context cpu(1);
  const Said reference(c.rows, [](const Shape& shape, DType type) { return Tensor(shape, type); });
  const PackedWeight there_too(cpu, {&view, 1}, DType::kF32);
  ops::linear_best(cpu, {&there_too, x, indices(rows), bias, reference.log_sums, reference.ids,
                         reference.values, reference.best});
  // (Sums that differ by their order: equal logits of the one may differ in the other.)
  if (dtype != DType::kF32 || c.in > 64 || c.ties) return;
  expect_same(got.here(ctx), reference, false);
}

TEST(CudaLinearBest, IsLinearAndSelect) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    ASSERT_EQ(ctx.backend().most_best_rows(), 8);
    for (int64_t rows = 1; rows <= 8; ++rows)
      for (const int64_t out : {int64_t{1}, random.integer(2, 40), random.integer(41, 700)})
        check(random, ctx,
              {rows, 8 * random.integer(1, 20), out, 8, random.integer(0, 2) > 0,
               random.integer(0, 1) == 0});
    for (int round = 0; round < 6; ++round)  // that are no multiples of anything
      check(random, ctx,
            {random.integer(1, 8), random.integer(1, 99), random.integer(1, 300), 1,
             random.integer(0, 2) > 0, false});
  }
}

// More features than the largest launch has room for at once.
TEST(CudaLinearBest, LargeVocabularies) {
  Random random;
  Context ctx = testing::cuda_context(DType::kBF16);
  check(random, ctx, {1, 8, 20011, 8, true, true});
  check(random, ctx, {5, 8, 9001, 8, false, true});
}

}  // namespace
}  // namespace tandem
