// The CUDA emulator's cuda_fp8.h: conversions of e4m3.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda_fp16.h"

using __nv_fp8_storage_t = unsigned char;
using __nv_fp8x2_storage_t = unsigned short;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace cuda_emulator {

inline float e4m3_to_float(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if ((bits & 0x7f) == 0x7f) return NAN;
  const float size = exponent == 0
                         ? std::ldexp(static_cast<float>(mantissa), -9)
                         : std::ldexp(1.0f + static_cast<float>(mantissa) / 8, exponent - 7);
  return bits & 0x80 ? -size : size;
}

}  // namespace cuda_emulator

// To nearest, ties to even; with __NV_SATFINITE 448 for all that is larger. Only e4m3.
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate,
                                                __nv_fp8_interpretation_t) {
  if (std::isnan(x)) return 0x7f;
  const uint8_t sign = std::signbit(x) ? 0x80 : 0;
  const float size = std::fabs(x);
  if (size > 464 || (size == 464 && saturate == __NV_NOSAT))
    return saturate == __NV_SATFINITE ? sign | 0x7e : sign | 0x7f;
  if (size >= 448) return sign | 0x7e;
  const int exponent = size < 0x1p-6f ? -6 : std::ilogb(size);
  // In units of the last place: 8 or more are a normal number's mantissa.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(size, 3 - exponent)));
  return static_cast<__nv_fp8_storage_t>(sign | (((exponent + 6) << 3) + units));
}

inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t pair,
                                              __nv_fp8_interpretation_t) {
  const __half low(cuda_emulator::e4m3_to_float(static_cast<uint8_t>(pair & 0xff)));
  const __half high(cuda_emulator::e4m3_to_float(static_cast<uint8_t>(pair >> 8)));
  return {low.bits, high.bits};
}
