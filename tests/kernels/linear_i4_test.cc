// int4 linear layers: what a packed weight holds is near the weight, and products with it have the
// bits of a naive version, since their sums are exact, on every level and for every number of rows.
#include <algorithm>

#include "base/error.h"
#include "tests/kernels/integer_linear_util.h"

namespace tandem::linear_i4_test {
namespace {

using testing::kInfinity;
using testing::kNan;
using testing::Random;
using testing::run_linear;
using testing::same_bits;
using testing::view_of;

class LinearI4Test : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(LinearI4Test);

constexpr int64_t kGroup = 32;

PackedWeight pack(Context& ctx, const Tensor& w) {
  const MatrixView view = view_of(w);
  return {ctx, {&view, 1}, DType::kI4};
}

// What a packed weight holds (kernels/cpu/packed_weight.h).
struct Unpacked {
  std::vector<std::vector<int>> factors, fours;  // by feature: of its groups, of its inputs
  std::vector<float> scales;
  std::vector<int32_t> offsets;

  int weight(int64_t n, int64_t k) const {  // over its scale
    const auto feature = static_cast<size_t>(n);
    return factors[feature][static_cast<size_t>(k / kGroup)] *
           fours[feature][static_cast<size_t>(k)];
  }
};
Unpacked unpack(const PackedWeight& w) {
  Unpacked out;
  const int64_t groups = (w.in_features() + kGroup - 1) / kGroup;
  const int64_t group_bytes = 16 * 64 + 64, panel_bytes = groups * group_bytes + 512;
  const auto* data = static_cast<const uint8_t*>(w.data().raw());
  for (int64_t n = 0; n < w.out_features(); ++n) {
    const uint8_t* panel = data + n / 64 * panel_bytes;
    const int64_t column = n % 64;
    std::vector<int> factors, fours;
    for (int64_t g = 0; g < groups; ++g)
      factors.push_back(static_cast<int8_t>(panel[g * group_bytes + 1024 + column]));
    for (int64_t k = 0; k < w.in_features(); ++k) {
      const int64_t in_group = k % kGroup;
      const uint8_t byte =
          panel[k / kGroup * group_bytes + in_group / 8 * 256 + column * 4 + in_group % 4];
      fours.push_back((in_group % 8 < 4 ? byte & 15 : byte >> 4) - 8);
    }
    out.factors.push_back(factors);
    out.fours.push_back(fours);
    float scale;
    int32_t offset;
    std::memcpy(&scale, panel + groups * group_bytes + column * 4, 4);
    std::memcpy(&offset, panel + groups * group_bytes + 256 + column * 4, 4);
    out.scales.push_back(scale);
    out.offsets.push_back(offset);
  }
  return out;
}

Tensor expected(const PackedWeight& packed, const Tensor& x, const Tensor& bias) {
  const Unpacked w = unpack(packed);
  return testing::integer_product(
      x, packed.out_features(), [&](int64_t n, int64_t k) { return w.weight(n, k); },
      [&](int64_t n) { return w.scales[static_cast<size_t>(n)]; }, bias);
}

const std::initializer_list<int64_t> kOddSizes = {1,  2,  3,  5,  15, 16,  17,  31,  32,   33,
                                                  56, 63, 64, 65, 79, 130, 200, 257, 1091, 2100};

TEST_P(LinearI4Test, HasTheBitsOfTheNaiveVersion) {
  Random random;
  Context one(1), three(3);
  for (int round = 0; round < 40; ++round) {
    const int64_t t = random.integer(1, 70), k = random.pick(kOddSizes), n = random.pick(kOddSizes);
    if (k * n > 1'000'000) continue;
    SCOPED_TRACE(std::to_string(t) + " x " + std::to_string(k) + " x " + std::to_string(n));
    const Tensor w = random.strided(n, k), x = random.strided(t, k);
    const Tensor bias = random.integer(0, 3) ? random.vector(n) : Tensor();
    const PackedWeight packed = pack(one, w);
    EXPECT_EQ(packed.bytes(),
              static_cast<size_t>((n + 63) / 64 * ((k + 31) / 32 * (16 * 64 + 64) + 512)));
    Tensor want = expected(packed, x, bias);
    EXPECT_TRUE(same_bits(run_linear(one, packed, x, bias), want));
    EXPECT_TRUE(same_bits(run_linear(three, packed, x, bias), want));
    const int64_t few = std::min<int64_t>(t, random.integer(1, 14));
    EXPECT_TRUE(
        same_bits(run_linear(three, packed, x.rows(t - few, t), bias), want.rows(t - few, t)));
    const auto activation = random.gentle_activation();
    testing::activate_all(want, activation);
    EXPECT_TRUE(testing::near(run_linear(one, packed, x, bias, activation), want, 2e-6, 2e-6));
  }
}

// The largest sums: no instruction on the way may saturate, no half sum overflow.
TEST_P(LinearI4Test, LongRowsOfTheLargestValues) {
  Random random;
  Context ctx(2);
  for (const int64_t k : {1023, 4096}) {
    Tensor w({70, k}, DType::kF32), x({20, k}, DType::kF32);
    for (const Tensor& m : {w, x})
      for (int64_t i = 0; i < m.dim(0); ++i)
        for (int64_t j = 0; j < k; ++j)
          m.row<float>(i)[j] = i == 0   ? 2.0f
                               : i == 1 ? -2.0f
                               : i == 2 ? (j % 4 < 2 ? 3.0f : -3.0f)
                                        : random.pick({-1.0f, 1.0f}) * static_cast<float>(i);
    const PackedWeight packed = pack(ctx, w);
    for (const int64_t rows : {5, 20}) {
      const Tensor y = run_linear(ctx, packed, x.rows(0, rows), Tensor());
      EXPECT_TRUE(same_bits(y, expected(packed, x.rows(0, rows), Tensor())));
      EXPECT_NEAR(y.row<float>(0)[1], -4.0 * static_cast<double>(k), 1e-2);
      EXPECT_NEAR(y.row<float>(1)[0], -4.0 * static_cast<double>(k), 1e-2);
    }
  }
}

TEST_P(LinearI4Test, OutliersZerosAndTinyRows) {
  Random random;
  Context ctx(2);
  const int64_t k = 130;
  const Tensor w = random.matrix(70, k), x = random.matrix(20, k), bias = random.vector(70);
  std::fill_n(w.row<float>(3), k, 0.0f);  // as a padding token in a tied embedding
  std::fill_n(w.row<float>(4), k, 1e-33f);
  std::fill_n(w.row<float>(5) + 32, 32, 0.0f);
  std::fill_n(x.row<float>(1), k, 0.0f);
  std::fill_n(x.row<float>(2), k, -1e-35f);
  std::fill_n(x.row<float>(4), k, 1e-42f);
  x.row<float>(5)[7] = -3e38f;
  x.row<float>(6)[129] = 1e20f;
  w.row<float>(69)[0] = 1e10f;
  const PackedWeight packed = pack(ctx, w);
  for (const int64_t rows : {8, 20}) {
    const Tensor y = run_linear(ctx, packed, x.rows(0, rows), bias);
    EXPECT_TRUE(same_bits(y, expected(packed, x.rows(0, rows), bias)));
    for (int64_t t : {1, 2, 4}) EXPECT_TRUE(same_bits(y.rows(t, t + 1), bias.reshape({1, 70})));
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t n : {3, 4}) EXPECT_EQ(y.row<float>(t)[n], bias.data<float>()[n]);
  }
}

// A row with a NaN or an infinity gives NaN and leaves the others alone; a feature too.
TEST_P(LinearI4Test, NotFiniteRowsAndFeaturesGiveNan) {
  Random random;
  Context ctx(2);
  for (const int64_t k : {1, 17, 64, 200}) {
    for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
      const int64_t rows = random.pick<int64_t>({5, 20});
      const Tensor w = random.matrix(70, k), x = random.matrix(rows, k), bias = random.vector(70);
      const Tensor before = expected(pack(ctx, w), x, bias);
      const int64_t row = random.integer(0, rows - 1), feature = random.integer(0, 69);
      x.row<float>(row)[random.integer(0, k - 1)] = bad;
      w.row<float>(feature)[random.integer(0, k - 1)] = bad;
      const Tensor y = run_linear(ctx, pack(ctx, w), x, bias);
      testing::expect_nan_there_only(y, before, row, feature);
    }
  }
}

TEST(LinearI4, LevelsGiveTheSameBits) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 10; ++round) {
    const int64_t t = random.integer(1, 70), k = random.pick(kOddSizes), n = random.pick(kOddSizes);
    const Tensor w = random.matrix(n, k), x = random.matrix(t, k), bias = random.vector(n);
    const PackedWeight packed = pack(ctx, w);  // is the same for all
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

// --- Packing -------------------------------------------------------------------------------------

double squared_error(const float* w, int64_t count, double step) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double q = std::clamp(std::nearbyint(w[i] / step), -8.0, 7.0);
    sum += std::pow(w[i] - step * q, 2);
  }
  return sum;
}

// No group is further from its weights than by hardly more than the best of all factors has it.
TEST(LinearI4, PacksGroupsWithLittleError) {
  Random random;
  Context ctx(2);
  const int64_t k = 333, n = 100;
  const Tensor w = random.matrix(n, k);
  for (int64_t i = 0; i < n; ++i) w.row<float>(i)[random.integer(0, k - 1)] *= 5;
  const Unpacked packed = unpack(pack(ctx, w));
  double errors = 0, least = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double scale = packed.scales[static_cast<size_t>(i)];
    int64_t sum = 0;
    for (int64_t begin = 0; begin < k; begin += kGroup) {
      const int64_t count = std::min(kGroup, k - begin);
      double error = 0, best = 1e30, best_tried = 1e30, largest = 0;
      for (int64_t j = begin; j < begin + count; ++j) {
        EXPECT_LE(std::abs(packed.weight(i, j)), 120);
        error += std::pow(w.row<float>(i)[j] - scale * packed.weight(i, j), 2);
        squares += std::pow(w.row<float>(i)[j], 2);
        largest = std::max<double>(largest, std::abs(w.row<float>(i)[j]));
        sum += packed.weight(i, j);
      }
      for (int factor = 1; factor <= 15; ++factor)
        for (const int sign : {1, -1}) {
          const double by_this =
              squared_error(w.row<float>(i) + begin, count, sign * factor * scale);
          best = std::min(best, by_this);
          const bool is_tried =
              8 * factor * scale >= 0.75 * largest && 7 * (factor - 1) * scale < largest;
          if (is_tried) best_tried = std::min(best_tried, by_this);
        }
      // (Packing tries neither to cut off more than a quarter of the range nor a larger one than
      // holds the largest at either end. By luck they are better for a group of few.)
      EXPECT_LE(error, 1.001 * best_tried + 1e-9) << i << ", " << begin;
      errors += error;
      least += best;
    }
    EXPECT_EQ(packed.offsets[static_cast<size_t>(i)], 128 * sum);
  }
  EXPECT_LE(errors, 1.01 * least);
  EXPECT_LT(std::sqrt(errors / squares), 0.12);
  EXPECT_GT(std::sqrt(errors / squares), 0.03);
}

TEST(LinearI4, StacksPartsOfAnyFloatType) {
  Random random;
  Context ctx(2);
  const int64_t k = 33;
  const testing::MixedParts mixed = testing::mixed_parts(random, k);
  const auto parts = mixed.views();
  const PackedWeight stacked(ctx, parts, DType::kI4);
  EXPECT_EQ(std::memcmp(stacked.data().raw(), pack(ctx, mixed.all).data().raw(), stacked.bytes()),
            0);
}

TEST(LinearI4, TooManyInputFeaturesAreAnError) {
  Context ctx(1);
  const std::vector<float> row(static_cast<size_t>(kMaxI8Features) + 1, 1.0f);
  const MatrixView most{row.data(), DType::kF32, 1, kMaxI8Features, kMaxI8Features},
      more{row.data(), DType::kF32, 1, kMaxI8Features + 1, kMaxI8Features + 1};
  EXPECT_THROW(PackedWeight(ctx, {&more, 1}, DType::kI4), InputError);
  for (const int64_t rows : {1, 20}) {
    Tensor x({rows, kMaxI8Features}, DType::kF32);
    std::fill_n(x.data<float>(), x.size(), -1.0f);
    const Tensor y = run_linear(ctx, PackedWeight(ctx, {&most, 1}, DType::kI4), x, Tensor());
    EXPECT_NEAR(y.data<float>()[0], -static_cast<double>(kMaxI8Features), 1);
  }
}

}  // namespace
}  // namespace tandem::linear_i4_test
