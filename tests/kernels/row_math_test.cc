// The largest of a row, where it is and whether there is a NaN, beside a plain loop.
#include "kernels/row_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tandem {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

void check_row(const std::vector<float>& row) {
  float largest = -kInfinity;
  int32_t at = 0, nan_at = -1;
  for (size_t i = 0; i < row.size(); ++i) {
    if (std::isnan(row[i]) && nan_at < 0) nan_at = static_cast<int32_t>(i);
    if (row[i] > largest) {
      largest = row[i];
      at = static_cast<int32_t>(i);
    }
  }
  const Peak peak = find_peak(row);
  ASSERT_EQ(peak.value, largest);
  ASSERT_EQ(peak.has_nan, nan_at >= 0);
  ASSERT_EQ(argmax(row), nan_at >= 0 ? nan_at : at);
}

TEST(RowMath, ThePeakOfRandomRows) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  const float odd[] = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 0};
  for (int round = 0; round < 3000; ++round) {
    std::vector<float> row(1 + rng() % (4 * kRowBlock));
    const bool ties = rng() % 3 == 0;
    for (float& x : row) x = ties ? static_cast<float>(rng() % 3) : normal(rng);
    for (size_t n = rng() % 3; n > 0; --n) row[rng() % row.size()] = odd[rng() % 4];
    ASSERT_NO_FATAL_FAILURE(check_row(row));
  }
}

TEST(RowMath, RowsOfOneValue) {
  for (const float value : {-kInfinity, kInfinity, -0.0f, std::nanf("")})
    for (const size_t size : {size_t{1}, kRowBlock - 1, kRowBlock, 3 * kRowBlock + 5})
      ASSERT_NO_FATAL_FAILURE(check_row(std::vector<float>(size, value)));
}

}  // namespace
}  // namespace tandem
