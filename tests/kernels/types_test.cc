// Conversions of the 16-bit floats, against the compiler's own type.
#include "kernels/core/types.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

namespace tandem::types_test {
namespace {

#if defined(__FLT16_MAX__)

// The compiler's own type. (g++ 12 has no _Float16 in C++ for ARM.)
#if defined(__aarch64__)
typedef __fp16 Half;
#else
typedef _Float16 Half;
#endif
uint16_t by_the_compiler(float x) { return std::bit_cast<uint16_t>(static_cast<Half>(x)); }

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
    const auto want = static_cast<float>(std::bit_cast<Half>(half));
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

// Every value is its own; what lies between two goes to the nearer, of equals to the even one.
TEST(E4m3, RoundsToTheNearest) {
  for (int bits = 0; bits < 0x100; ++bits)
    if ((bits & 0x7f) != 0x7f) {
      ASSERT_EQ(float_to_e4m3(e4m3_to_float(static_cast<uint8_t>(bits))), bits);
    }
  for (int bits = 0; bits < 0x7e; ++bits) {
    const float low = e4m3_to_float(static_cast<uint8_t>(bits)),
                high = e4m3_to_float(static_cast<uint8_t>(bits + 1)), middle = (low + high) / 2;
    ASSERT_LT(low, high);
    for (const float sign : {1.0f, -1.0f}) {
      const int negative = sign < 0 ? 0x80 : 0;
      EXPECT_EQ(float_to_e4m3(sign * std::nextafter(middle, 0.0f)), bits | negative);
      EXPECT_EQ(float_to_e4m3(sign * middle), (bits % 2 == 0 ? bits : bits + 1) | negative);
      EXPECT_EQ(float_to_e4m3(sign * std::nextafter(middle, 1e9f)), (bits + 1) | negative);
    }
  }
}

TEST(E4m3, TheEnds) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(e4m3_to_float(0x7e), 448.0f);
  EXPECT_EQ(e4m3_to_float(0x01), 0x1p-9f);
  EXPECT_EQ(e4m3_to_float(0x08), 0x1p-6f);
  for (const float large : {449.0f, 464.0f, 500.0f, 1e30f, kInf}) {
    EXPECT_EQ(float_to_e4m3(large), 0x7e);
    EXPECT_EQ(float_to_e4m3(-large), 0xfe);
  }
  EXPECT_EQ(float_to_e4m3(std::nanf("")), 0x7f);
  EXPECT_TRUE(std::isnan(e4m3_to_float(0x7f)));
  EXPECT_TRUE(std::isnan(e4m3_to_float(0xff)));
  EXPECT_EQ(float_to_e4m3(-0.0f), 0x80);
}

}  // namespace
}  // namespace tandem::types_test
