// The CUDA emulator's cuda_fp16.h.
#pragma once

#include "cuda_emulator_float16.h"

CUDA_EMULATOR_FLOAT16(__half, __half2, f16_to_float, float_to_f16)
struct __half2_raw {
  unsigned short x, y;
};
using half = __half;
using half2 = __half2;

inline float __half2float(__half v) { return v; }
inline __half __float2half(float v) { return v; }
inline __half __float2half_rn(float v) { return v; }
inline __half2 __floats2half2_rn(float a, float b) { return {a, b}; }
inline __half2 __float22half2_rn(float2 v) { return {v.x, v.y}; }
inline __half2 __float2half2_rn(float v) { return {v, v}; }
inline float2 __half22float2(__half2 v) { return {v.x, v.y}; }
inline __half2 __half2half2(__half v) { return {v, v}; }
inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
inline __half __low2half(__half2 v) { return v.x; }
inline __half __high2half(__half2 v) { return v.y; }
inline unsigned short __half_as_ushort(__half v) { return v.bits; }
inline __half __ushort_as_half(unsigned short bits) { return std::bit_cast<__half>(bits); }
inline __half __int2half_rn(int v) { return v; }
