// What __half and __nv_bfloat16 have in common: 16 bits of storage, arithmetic through float, one
// rounding to the nearest (ties to even) for each operation. Part of the CUDA emulator.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda_runtime.h"

namespace cuda_emulator {

inline float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;  // NaN, as the hardware writes it
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float f16_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t rest = static_cast<uint32_t>(bits & 0x7fff) << 13;
  if (rest >= 0x0f800000) return std::bit_cast<float>(sign | (rest + 0x70000000));  // Inf, NaN
  // (2^112 moves the exponent's bias; subnormal numbers become normal by it.)
  return std::bit_cast<float>(sign |
                              std::bit_cast<uint32_t>(std::bit_cast<float>(rest) * 0x1p112f));
}
inline uint16_t float_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return 0x7fff;
  if (rest >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // from 65520 on: infinity
  if (rest < 0x38800000) {  // subnormal: the sum's last bit is worth 2^-24, and the FPU rounds
    const float sum = std::bit_cast<float>(rest) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000));
  }
  const uint32_t rounded = rest + 0xfff + (rest >> 13 & 1) - 0x38000000;
  return static_cast<uint16_t>(sign | rounded >> 13);
}

}  // namespace cuda_emulator

#define CUDA_EMULATOR_FLOAT16(T, T2, to_float, from_float)                                       \
  struct alignas(2) T {                                                                          \
    uint16_t bits;                                                                               \
    T() = default;                                                                               \
    T(float v) : bits(cuda_emulator::from_float(v)) {}                                           \
    T(double v) : T(static_cast<float>(v)) {}                                                    \
    T(int v) : T(static_cast<float>(v)) {}                                                       \
    operator float() const { return cuda_emulator::to_float(bits); }                             \
    T& operator+=(T v) { return *this = T(float(*this) + float(v)); }                            \
    T& operator-=(T v) { return *this = T(float(*this) - float(v)); }                            \
    T& operator*=(T v) { return *this = T(float(*this) * float(v)); }                            \
    T& operator/=(T v) { return *this = T(float(*this) / float(v)); }                            \
    friend T operator+(T a, T b) { return a += b; }                                              \
    friend T operator-(T a, T b) { return a -= b; }                                              \
    friend T operator*(T a, T b) { return a *= b; }                                              \
    friend T operator/(T a, T b) { return a /= b; }                                              \
    friend T operator-(T a) { return T(-float(a)); }                                             \
    friend bool operator==(T a, T b) { return float(a) == float(b); }                            \
    friend bool operator!=(T a, T b) { return float(a) != float(b); }                            \
    friend bool operator<(T a, T b) { return float(a) < float(b); }                              \
    friend bool operator>(T a, T b) { return float(a) > float(b); }                              \
    friend bool operator<=(T a, T b) { return float(a) <= float(b); }                            \
    friend bool operator>=(T a, T b) { return float(a) >= float(b); }                            \
  };                                                                                             \
  struct alignas(4) T2 {                                                                         \
    T x, y;                                                                                      \
    T2() = default;                                                                              \
    T2(T a, T b) : x(a), y(b) {}                                                                 \
    friend T2 operator+(T2 a, T2 b) { return {a.x + b.x, a.y + b.y}; }                           \
    friend T2 operator-(T2 a, T2 b) { return {a.x - b.x, a.y - b.y}; }                           \
    friend T2 operator*(T2 a, T2 b) { return {a.x * b.x, a.y * b.y}; }                           \
    friend T2 operator/(T2 a, T2 b) { return {a.x / b.x, a.y / b.y}; }                           \
  };                                                                                             \
  inline T __hadd(T a, T b) { return a + b; }                                                    \
  inline T __hsub(T a, T b) { return a - b; }                                                    \
  inline T __hmul(T a, T b) { return a * b; }                                                    \
  inline T __hdiv(T a, T b) { return a / b; }                                                    \
  inline T __hneg(T a) { return -a; }                                                            \
  inline T __habs(T a) { return T(std::fabs(float(a))); }                                        \
  inline T __hmax(T a, T b) { return T(std::fmax(float(a), float(b))); }                         \
  inline T __hmin(T a, T b) { return T(std::fmin(float(a), float(b))); }                         \
  inline T __hfma(T a, T b, T c) { return T(std::fma(float(a), float(b), float(c))); }           \
  inline bool __hgt(T a, T b) { return a > b; }                                                  \
  inline bool __hlt(T a, T b) { return a < b; }                                                  \
  inline bool __heq(T a, T b) { return a == b; }                                                 \
  inline bool __hisnan(T a) { return std::isnan(float(a)); }                                     \
  inline T2 __hadd2(T2 a, T2 b) { return a + b; }                                                \
  inline T2 __hsub2(T2 a, T2 b) { return a - b; }                                                \
  inline T2 __hmul2(T2 a, T2 b) { return a * b; }                                                \
  inline T2 __hfma2(T2 a, T2 b, T2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; } \
  inline T2 __hmax2(T2 a, T2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }                 \
  inline float __low2float(T2 v) { return v.x; }                                                 \
  inline float __high2float(T2 v) { return v.y; }
