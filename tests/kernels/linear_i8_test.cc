// int8 linear layers against a naive version with the same quantisation: the sums are exact, so the
// bits must be the same, on every level.
#include <algorithm>

#include "base/error.h"
#include "tests/kernels/integer_linear_util.h"

namespace tandem::linear_i8_test {
namespace {

using testing::kInfinity;
using testing::kNan;
using testing::near;
using testing::Random;
using testing::run_linear;
using testing::same_bits;
using testing::view_of;

class LinearI8Test : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(LinearI8Test);

Tensor expected(const Tensor& w, const Tensor& x, const Tensor& bias) {
  std::vector<testing::QuantisedRow> features;
  for (int64_t n = 0; n < w.dim(0); ++n)
    features.push_back(testing::quantise_row(w.row<float>(n), x.dim(1)));
  const auto feature = [&](int64_t n) -> const auto& { return features[static_cast<size_t>(n)]; };
  return testing::integer_product(
      x, w.dim(0), [&](int64_t n, int64_t k) { return feature(n).q[static_cast<size_t>(k)]; },
      [&](int64_t n) { return feature(n).scale; }, bias);
}

const std::initializer_list<int64_t> kOddSizes = {1,  2,  3,  5,  15,  16,  17,  56,
                                                  63, 64, 65, 79, 130, 200, 257, 1091};

TEST_P(LinearI8Test, HasTheBitsOfTheNaiveVersion) {
  Random random;
  Context one(1), three(3);
  for (int round = 0; round < 40; ++round) {
    const int64_t t = random.integer(1, 70), k = random.pick(kOddSizes), n = random.pick(kOddSizes);
    SCOPED_TRACE(std::to_string(t) + " x " + std::to_string(k) + " x " + std::to_string(n));
    const Tensor w = random.strided(n, k), x = random.strided(t, k);
    const Tensor bias = random.integer(0, 3) ? random.vector(n) : Tensor();
    const MatrixView view = view_of(w);
    const PackedWeight packed(one, {&view, 1}, DType::kI8);
    EXPECT_EQ(packed.bytes(), static_cast<size_t>((n + 63) / 64 * ((k + 3) / 4 + 2) * 256));
    Tensor want = expected(w, x, bias);
    EXPECT_TRUE(same_bits(run_linear(one, packed, x, bias), want));
    EXPECT_TRUE(same_bits(run_linear(three, packed, x, bias), want));
    const auto activation = random.gentle_activation();
    testing::activate_all(want, activation);
    EXPECT_TRUE(near(run_linear(one, packed, x, bias, activation), want, 2e-6, 2e-6));
  }
}

// The largest sums: no instruction on the way may saturate.
TEST_P(LinearI8Test, LongRowsOfTheLargestValues) {
  Random random;
  Context ctx(2);
  for (const int64_t k : {1023, 4096}) {
    Tensor w({70, k}, DType::kF32), x({5, k}, DType::kF32);
    for (const Tensor& m : {w, x})
      for (int64_t i = 0; i < m.dim(0); ++i)
        for (int64_t j = 0; j < k; ++j)
          m.row<float>(i)[j] = i == 0   ? 2.0f
                               : i == 1 ? -2.0f
                                        : random.pick({-1.0f, 1.0f}) * static_cast<float>(i);
    const MatrixView view = view_of(w);
    const PackedWeight packed(ctx, {&view, 1}, DType::kI8);
    const Tensor y = run_linear(ctx, packed, x, Tensor());
    EXPECT_TRUE(same_bits(y, expected(w, x, Tensor())));
    EXPECT_NEAR(y.row<float>(0)[1], -4.0 * static_cast<double>(k), 1e-2);
  }
}

TEST_P(LinearI8Test, OutliersZerosAndTinyRows) {
  Random random;
  Context ctx(2);
  const int64_t k = 130;
  const Tensor w = random.matrix(70, k), x = random.matrix(8, k), bias = random.vector(70);
  std::fill_n(w.row<float>(3), k, 0.0f);  // as a padding token in a tied embedding
  std::fill_n(x.row<float>(1), k, 0.0f);
  std::fill_n(x.row<float>(2), k, -1e-35f);
  std::fill_n(x.row<float>(4), k, 1e-42f);
  x.row<float>(5)[7] = -3e38f;
  x.row<float>(6)[129] = 1e20f;
  w.row<float>(69)[0] = 1e10f;
  const MatrixView view = view_of(w);
  const PackedWeight packed(ctx, {&view, 1}, DType::kI8);
  const Tensor y = run_linear(ctx, packed, x, bias);
  EXPECT_TRUE(same_bits(y, expected(w, x, bias)));
  for (int64_t t : {1, 2, 4}) EXPECT_TRUE(same_bits(y.rows(t, t + 1), bias.reshape({1, 70})));
  for (int64_t t = 0; t < 8; ++t) EXPECT_EQ(y.row<float>(t)[3], bias.data<float>()[3]);
}

// A row with a NaN or an infinity gives NaN and leaves the others alone; a feature too.
TEST_P(LinearI8Test, NotFiniteRowsAndFeaturesGiveNan) {
  Random random;
  Context ctx(2);
  for (const int64_t k : {1, 17, 64, 200}) {
    for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
      const Tensor w = random.matrix(70, k), x = random.matrix(9, k), bias = random.vector(70);
      const Tensor before = expected(w, x, bias);
      const int64_t row = random.integer(0, 8), feature = random.integer(0, 69);
      x.row<float>(row)[random.integer(0, k - 1)] = bad;
      w.row<float>(feature)[random.integer(0, k - 1)] = bad;
      const MatrixView view = view_of(w);
      const Tensor y = run_linear(ctx, PackedWeight(ctx, {&view, 1}, DType::kI8), x, bias);
      testing::expect_nan_there_only(y, before, row, feature);
    }
  }
}

TEST_P(LinearI8Test, StacksPartsOfAnyFloatType) {
  Random random;
  Context ctx(2);
  const int64_t k = 33;
  const testing::MixedParts mixed = testing::mixed_parts(random, k);
  const auto parts = mixed.views();
  const Tensor x = random.matrix(5, k);
  EXPECT_TRUE(same_bits(run_linear(ctx, PackedWeight(ctx, parts, DType::kI8), x, Tensor()),
                        expected(mixed.all, x, Tensor())));
}

// Rounding to 1/127 of the largest: the error of a product of random vectors.
TEST_P(LinearI8Test, IsNearThePlainProduct) {
  Random random;
  Context ctx(2);
  const int64_t k = 768;
  const Tensor w = random.matrix(100, k), x = random.matrix(12, k);
  const MatrixView view = view_of(w);
  Tensor exact({12, 100}, DType::kF32);
  reference::linear(view, x, Tensor(), Activation::kNone, exact);
  const Tensor y = run_linear(ctx, PackedWeight(ctx, {&view, 1}, DType::kI8), x, Tensor());
  double squares = 0, errors = 0;
  for (int64_t i = 0; i < y.size(); ++i) {
    squares += exact.data<float>()[i] * exact.data<float>()[i];
    errors += std::pow(y.data<float>()[i] - exact.data<float>()[i], 2);
  }
  // Each factor is off by a uniform error of 1/sqrt(12) steps, a step being about 3.3/127.
  EXPECT_LT(std::sqrt(errors / squares), 0.02);
  EXPECT_GT(errors, 0);
}

TEST(LinearI8, LevelsGiveTheSameBits) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 10; ++round) {
    const int64_t t = random.integer(1, 70), k = random.pick(kOddSizes), n = random.pick(kOddSizes);
    const Tensor w = random.matrix(n, k), x = random.matrix(t, k), bias = random.vector(n);
    const MatrixView view = view_of(w);
    const PackedWeight packed(ctx, {&view, 1}, DType::kI8);  // is the same for all
    const auto activation = random.gentle_activation();
    Tensor first;
    for (CpuIsa isa : testing::available_isas()) {
      set_cpu_isa(isa);
      const Tensor y = run_linear(ctx, packed, x, bias, activation);
      if (first.empty()) first = y;
      EXPECT_TRUE(same_bits(y, first)) << name_of(isa);
    }
    set_cpu_isa(best_cpu_isa());
  }
}

TEST(LinearI8, TooManyInputFeaturesAreAnError) {
  Context ctx(1);
  const std::vector<float> row(static_cast<size_t>(kMaxI8Features) + 1, 1.0f);
  const MatrixView most{row.data(), DType::kF32, 1, kMaxI8Features, kMaxI8Features},
      more{row.data(), DType::kF32, 1, kMaxI8Features + 1, kMaxI8Features + 1};
  EXPECT_THROW(PackedWeight(ctx, {&more, 1}, DType::kI8), InputError);
  Tensor x({1, kMaxI8Features}, DType::kF32);
  std::fill_n(x.data<float>(), kMaxI8Features, -1.0f);
  const Tensor y = run_linear(ctx, PackedWeight(ctx, {&most, 1}, DType::kI8), x, Tensor());
  EXPECT_NEAR(y.data<float>()[0], -static_cast<double>(kMaxI8Features), 1);
}

}  // namespace
}  // namespace tandem::linear_i8_test
