// Rows of logits: every level of the CPU has the bits of plain loops.
#include "kernels/row_math.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "tests/kernels/kernels_test_util.h"

namespace tandem::row_math_test {
namespace {

using testing::Random;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class RowMathTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(RowMathTest);

std::vector<float> random_row(Random& random) {
  const int64_t size = random.pick({0, 1, 15, 16, 255, 256, 257, 1000, 5000});
  std::vector<float> x(static_cast<size_t>(size));
  for (float& v : x) v = random.normal() * 20;
  const auto put = [&](float v) {
    if (size > 0) x[static_cast<size_t>(random.integer(0, size - 1))] = v;
  };
  if (random.integer(0, 3) == 0) put(kNan);
  if (random.integer(0, 3) == 0) put(-kInfinity);
  if (random.integer(0, 7) == 0) put(kInfinity);
  if (random.integer(0, 3) == 0) std::fill(x.begin(), x.end(), random.pick({0.0f, -kInfinity}));
  return x;
}

TEST_P(RowMathTest, PeaksAreThoseOfPlainLoops) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    const std::vector<float> x = random_row(random);
    float top = -kInfinity;
    bool nan = false;
    size_t first = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      nan |= std::isnan(x[i]);
      if (x[i] > top) {
        top = x[i];
        first = i;
      }
    }
    const Peak peak = find_peak(x);
    ASSERT_EQ(peak.value, top);
    ASSERT_EQ(peak.has_nan, nan);
    ASSERT_EQ(peak.block, first / kRowBlock * kRowBlock);
    if (!nan && std::isfinite(top)) {
      ASSERT_EQ(index_of(peak, x), static_cast<int32_t>(first));
    }
  }
}

TEST_P(RowMathTest, ExponentialsAndTheirSumsHaveTheSameBits) {
  Random random;
  for (int round = 0; round < 100; ++round) {
    std::vector<float> x = random_row(random);
    const float top = std::max(find_peak(x).value, -1000.0f);
    std::vector<float> got(x.size());
    exp_all(x, top, got);
    double sum = 0;
    for (size_t i = 0; i < x.size(); i += kRowBlock) {
      std::array<float, 16> part{};
      for (size_t j = i; j < std::min(x.size(), i + kRowBlock); ++j) {
        const float e = exp_nonpositive(x[j] - top);
        if (std::isnan(e)) {
          ASSERT_TRUE(std::isnan(got[j]));
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(got[j]), std::bit_cast<uint32_t>(e)) << x[j] - top;
        }
        part[(j - i) % 16] += e;
      }
      float of_block = 0;
      for (const float p : part) of_block += p;
      sum += of_block;
    }
    const double got_sum = sum_exp(x, top);
    if (std::isnan(sum)) {
      ASSERT_TRUE(std::isnan(got_sum));
    } else {
      ASSERT_EQ(std::bit_cast<uint64_t>(got_sum), std::bit_cast<uint64_t>(sum));
    }
  }
}

// Of one block: the largest (NaN if there is one), and the sum by 16 lanes and their tree.
std::pair<float, float> block_sum(std::span<const float> x) {
  float top = -kInfinity;
  for (const float v : x) {
    if (std::isnan(v)) return {kNan, 0.0f};
    top = std::max(top, v);
  }
  if (!std::isfinite(top)) return {top, 0.0f};
  std::array<float, 16> part{};
  for (size_t i = 0; i < x.size(); ++i) part[i % 16] += exp_nonpositive(x[i] - top);
  for (size_t width = 8; width > 0; width /= 2)
    for (size_t i = 0; i < width; ++i) part[i] += part[i + width];
  return {top, part[0]};
}

TEST_P(RowMathTest, BlocksHaveTheBitsOfPlainLoops) {
  Random random;
  for (int round = 0; round < 200; ++round) {
    const std::vector<float> x = random_row(random);
    const size_t blocks = (x.size() + kSumBlock - 1) / kSumBlock;
    std::vector<float> peaks(blocks), sums(blocks);
    sum_blocks(x, peaks.data(), sums.data());
    for (size_t b = 0; b < blocks; ++b) {
      const size_t first = b * kSumBlock;
      const auto [peak, sum] =
          block_sum(std::span(x).subspan(first, std::min(kSumBlock, x.size() - first)));
      ASSERT_TRUE(peaks[b] == peak || (std::isnan(peak) && std::isnan(peaks[b]))) << peak;
      ASSERT_EQ(std::bit_cast<uint32_t>(sums[b]), std::bit_cast<uint32_t>(sum)) << "block " << b;
    }
  }
}

TEST_P(RowMathTest, ASumOfARowKnowsItsPeak) {
  Random random;
  for (int round = 0; round < 300; ++round) {
    const std::vector<float> x = random_row(random);
    const RowSum sum = sum_row(x);
    const Peak peak = find_peak(x);
    ASSERT_EQ(sum.peak.has_nan, peak.has_nan);
    ASSERT_EQ(index_of(sum.peak, x), index_of(peak, x));
    if (!peak.finite()) {
      ASSERT_TRUE(peak.value == -kInfinity && !peak.has_nan ? sum.log_sum == -kInfinity
                                                            : std::isnan(sum.log_sum));
      continue;
    }
    ASSERT_EQ(sum.peak.value, peak.value);
    double expected = 0;
    for (const float v : x) expected += std::exp(static_cast<double>(v) - peak.value);
    ASSERT_NEAR(sum.log_sum, peak.value + std::log(expected), 1e-6);
  }
}

}  // namespace
}  // namespace tandem::row_math_test
