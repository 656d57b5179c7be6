// Conversions of the 16-bit floats, against the compiler's own type.
#include "kernels/core/types.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

namespace tandem {
namespace {

#if defined(__FLT16_MAX__)

uint16_t by_the_compiler(float x) { return std::bit_cast<uint16_t>(static_cast<_Float16>(x)); }

void expect_same(float x) {
  const uint16_t got = float_to_f16(x);
  if (std::isnan(x)) {
    ASSERT_TRUE(std::isnan(f16_to_float(got))) << std::bit_cast<uint32_t>(x);
  } else {
    ASSERT_EQ(got, by_the_compiler(x)) << x << ", bits " << std::bit_cast<uint32_t>(x);
  }
}

// Every sign and exponent, and of the fraction all that can decide a rounding: the bits that stay,
// the first that goes, and whether any other is set.
TEST(Float16, FromEveryKindOfFloat) {
  for (uint32_t high = 0; high < (1u << 20); ++high)
    for (const uint32_t low : {0u, 1u, 0xfffu}) expect_same(std::bit_cast<float>(high << 12 | low));
}

TEST(Float16, FromRandomFloats) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int i = 0; i < 2'000'000; ++i)
    expect_same(std::bit_cast<float>(static_cast<uint32_t>(random())));
}

TEST(Float16, ToFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const auto want = static_cast<float>(std::bit_cast<_Float16>(half));
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(f16_to_float(half))) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(f16_to_float(half)), std::bit_cast<uint32_t>(want)) << bits;
    }
  }
}

#endif

TEST(Float16, ThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float x = f16_to_float(half);
    if (!std::isnan(x)) {
      ASSERT_EQ(float_to_f16(x), half) << x;
    }
    const float y = bf16_to_float(half);
    if (!std::isnan(y)) {
      ASSERT_EQ(float_to_bf16(y), half) << y;
    }
  }
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00);  // rounds to 2^16
  EXPECT_EQ(float_to_f16(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(float_to_f16(0x1p-25f), 0);  // half of the least, to even
  EXPECT_EQ(float_to_f16(std::nextafter(0x1p-25f, 1.0f)), 1);
}

}  // namespace
}  // namespace tandem
