// Element types, and conversions of the small floats.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tandem {

enum class DType : uint8_t { kF32, kF16, kBF16, kI32, kI64, kU8, kI8, kI4, kF8E4M3 };

constexpr size_t size_of(DType t) {
  switch (t) {
    case DType::kF32:
    case DType::kI32: return 4;
    case DType::kF16:
    case DType::kBF16: return 2;
    case DType::kI64: return 8;
    case DType::kU8:
    case DType::kI8:
    case DType::kI4:  // as it is computed with; only packed weights have it
    case DType::kF8E4M3: return 1;
  }
  return 0;
}

// Of linear layers, on the CPU only.
constexpr bool is_integer_compute(DType t) { return t == DType::kI8 || t == DType::kI4; }

constexpr const char* name_of(DType t) {
  switch (t) {
    case DType::kF32: return "float32";
    case DType::kF16: return "float16";
    case DType::kBF16: return "bfloat16";
    case DType::kI32: return "int32";
    case DType::kI64: return "int64";
    case DType::kU8: return "uint8";
    case DType::kI8: return "int8";
    case DType::kI4: return "int4";
    case DType::kF8E4M3: return "float8_e4m3";
  }
  return "?";
}

inline float bf16_to_float(uint16_t v) { return std::bit_cast<float>(uint32_t{v} << 16); }

// Rounds to nearest, ties to even; NaN stays NaN.
inline uint16_t float_to_bf16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

// Rounds to nearest, ties to even. Overflow gives an infinity, NaN stays NaN.
inline uint16_t float_to_f16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const auto sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t size = u & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (size >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 2^16
  if (size < 0x38800000u) {  // below the least normal one: multiples of 2^-24
    const float scaled = std::nearbyint(std::bit_cast<float>(size) * 16777216.0f);
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(scaled));
  }
  const uint32_t rounded = size + 0xfffu + ((size >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

inline float f16_to_float(uint16_t h) {
  const uint32_t sign = uint32_t{h & 0x8000u} << 16;
  const uint32_t exponent = (h >> 10) & 0x1fu;
  const uint32_t mantissa = h & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {  // zero and subnormal: value = mantissa * 2^-24
    const float v = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -v : v;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// e4m3 has 4 bits of exponent, 3 of mantissa and no infinities; 0x7f and 0xff are NaN. Rounds to
// nearest, ties to even. Overflow gives 448 of its sign, NaN gives 0x7f.
inline uint8_t float_to_e4m3(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const auto sign = static_cast<uint8_t>((u >> 24) & 0x80u);
  const uint32_t size = u & 0x7fffffffu;
  if (size > 0x7f800000u) return 0x7f;
  if (size >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);  // from 448 on
  if (size < 0x3c800000u) {  // below 2^-6, the least normal one: multiples of 2^-9
    const float scaled = std::nearbyint(std::bit_cast<float>(size) * 512.0f);
    return static_cast<uint8_t>(sign | static_cast<uint8_t>(scaled));
  }
  const uint32_t rounded = size + 0x7ffffu + ((size >> 20) & 1u);
  return static_cast<uint8_t>(sign | ((rounded - 0x3c000000u) >> 20));
}

inline float e4m3_to_float(uint8_t b) {
  const int exponent = (b >> 3) & 0xf, mantissa = b & 7;
  float v = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                          : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  if ((b & 0x7f) == 0x7f) v = std::bit_cast<float>(0x7fc00000u);
  return (b & 0x80) != 0 ? -v : v;
}

}  // namespace tandem
