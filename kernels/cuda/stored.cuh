// Weights as they are stored, on their way to products: conversions that are exact.
#pragma once

#include <cstring>

#include "kernels/core/quantization.h"
#include "kernels/cuda/device.cuh"

namespace tandem::cuda {

// The bits of the e4m3 nearest to x, ties to even, 448 at most. No NaN.
__host__ __device__ __forceinline__ uint8_t to_e4m3(float x) {
  union {
    float value;
    uint32_t bits;
  } of{x}, small{};
  const uint32_t sign = of.bits >> 24 & 0x80u, size = of.bits & 0x7fffffffu;
  if (size >= 0x43e00000u) return static_cast<uint8_t>(sign | 0x7eu);
  if (size < 0x3c800000u) {  // below 2^-6: multiples of 2^-9, the last bit of 2^14's mantissa
    of.bits = size;
    small.value = of.value + 16384.0f;
    return static_cast<uint8_t>(sign | (small.bits - 0x46800000u));
  }
  const uint32_t rounded = size + 0x7ffffu + (size >> 20 & 1u);
  return static_cast<uint8_t>(sign | ((rounded - (120u << 23)) >> 20));
}

// q + 128 in byte i of `word` → q.
__device__ __forceinline__ float int8_at(uint32_t word, int i) {
  return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440u | static_cast<unsigned>(i))) -
         8388736.0f;
}
// e4m3 in byte i of `word`.
__device__ __forceinline__ float fp8_at(uint32_t word, int i) {
  const uint32_t top = __byte_perm(word, 0, 0x0444u | static_cast<unsigned>(i) << 12);
  return __uint_as_float((top & 0x80000000u) | (top >> 4 & 0x07f00000u)) * 0x1p120f;
}
// Element i of 8: q.
__device__ __forceinline__ float int4_at(uint32_t word, int i) {
  const int shift = i / 2 * 4 + i % 2 * 16;
  return __uint_as_float((word >> shift & 0xfu) | 0x4b000000u) - 8388608.0f;
}

// Scale and zero of a group of int4.
struct GroupScale {
  float scale, zero;
};
__device__ __forceinline__ GroupScale group_scale(float stored) {
  const uint32_t bits = __float_as_uint(stored);
  return {__uint_as_float(bits & ~15u), static_cast<float>(bits & 15u)};
}

// Kinds of weights: 16 bytes hold kElements of them, kPart are converted at a time. `scale` is for
// int4, whose scales belong to stretches of a row; kRowScale: one belongs to a whole row.
template <class T>
struct Plain {
  static constexpr int kElements = kVector<T>, kPart = kElements;
  static constexpr bool kRowScale = false, kGroups = false;
  static __device__ __forceinline__ void widen(const uint4& raw, int, GroupScale,
                                               float (&out)[kPart]) {
    Vector<T> v;  // copied: a value that was stored as one type is not there to be read as another
    memcpy(static_cast<void*>(&v), &raw, sizeof(v));
#pragma unroll
    for (int i = 0; i < kPart; ++i) out[i] = to_float(v.values[i]);
  }
};

__device__ __forceinline__ uint32_t word_of(const uint4& raw, int i) {
  return i == 0 ? raw.x : i == 1 ? raw.y : i == 2 ? raw.z : raw.w;
}

struct Int8 {
  static constexpr int kElements = 16, kPart = 8;
  static constexpr bool kRowScale = true, kGroups = false;
  static __device__ __forceinline__ void widen(const uint4& raw, int part, GroupScale,
                                               float (&out)[kPart]) {
#pragma unroll
    for (int i = 0; i < kPart; ++i) out[i] = int8_at(word_of(raw, part * 2 + i / 4), i % 4);
  }
};

struct Fp8 {
  static constexpr int kElements = 16, kPart = 8;
  static constexpr bool kRowScale = true, kGroups = false;
  static __device__ __forceinline__ void widen(const uint4& raw, int part, GroupScale,
                                               float (&out)[kPart]) {
#pragma unroll
    for (int i = 0; i < kPart; ++i) out[i] = fp8_at(word_of(raw, part * 2 + i / 4), i % 4);
  }
};

struct Int4 {
  static constexpr int kElements = 32, kPart = 8;
  static constexpr bool kRowScale = false, kGroups = true;
  static __device__ __forceinline__ void widen(const uint4& raw, int part, GroupScale group,
                                               float (&out)[kPart]) {
#pragma unroll
    for (int i = 0; i < kPart; ++i)
      out[i] = (int4_at(word_of(raw, part), i) - group.zero) * group.scale;
  }
};

// Calls body(Kind{}) with the kind of a quantised weight.
template <class Body>
void with_quantization(Quantization q, const Body& body) {
  switch (q) {
    case Quantization::kInt8: return body(Int8());
    case Quantization::kInt4: return body(Int4());
    case Quantization::kFp8:
    case Quantization::kFp8Inputs: return body(Fp8());
    case Quantization::kNone: break;
  }
  TANDEM_CHECK(false, "no quantised weight");
}

}  // namespace tandem::cuda
