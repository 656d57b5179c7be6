// What pages of the KV cache hold (KvPages): 8 bits with a scale for each row, or the activations'
// type. A row is a token's key or value of a head.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/stored.cuh"

namespace tandem::cuda {

// A pair of e4m3, the first in the lower byte.
inline __device__ float2 widen_e4m3(uint32_t pair) {
  const __half2_raw raw =
      __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair), __NV_E4M3);
  __half2 halves;
  static_assert(sizeof halves == sizeof raw);
  memcpy(static_cast<void*>(&halves), &raw, sizeof halves);
  return __half22float2(halves);
}

// Both types of 8 bits have
// - Scale, as it is stored, and Loaded, as it waits in a register until factor() makes it a number;
// - magnitude(x). Of its maximum over a row Rounding is made, which has the row's scale and rounds
//   elements.

// e4m3. A scale is the exponent of a power of two.
struct F8 {
  using Element = uint8_t;
  using Scale = uint8_t;
  using Loaded = uint32_t;

  static __device__ float widen(uint8_t x) {
    return (x & 0x7fu) == 0x7fu ? __uint_as_float(0x7fc00000u) : fp8_at(x, 0);
  }
  static __device__ void widen_4(uint32_t four, float* out) {
    const float2 low = widen_e4m3(four & 0xffffu), high = widen_e4m3(four >> 16);
    out[0] = low.x;
    out[1] = low.y;
    out[2] = high.x;
    out[3] = high.y;
  }
  static __device__ float factor(uint32_t scale) { return __uint_as_float(scale << 23); }

  // NaN and infinities need no scale.
  static __device__ float magnitude(float x) { return fabsf(x) < INFINITY ? fabsf(x) : 0.0f; }
  struct Rounding {
    uint8_t scale;
    float inverse;
    __device__ explicit Rounding(float largest) {
      // The least power of two 2^(exponent - 127) of which 448 (1.75 times 2^8) is as large.
      const uint32_t bits = __float_as_uint(largest);
      const int exponent =
          max(1, static_cast<int>(bits >> 23) - 8 + ((bits & 0x7fffffu) > 0x600000u ? 1 : 0));
      scale = static_cast<uint8_t>(exponent);
      inverse = __uint_as_float(static_cast<uint32_t>(254 - exponent) << 23);
    }
    __device__ uint8_t operator()(float x) const {
      return __nv_cvt_float_to_fp8(x * inverse, __NV_SATFINITE, __NV_E4M3);
    }
  };
};

// Integers from -127 to 127. A scale is a number.
struct I8 {
  using Element = int8_t;
  using Scale = float;
  using Loaded = float;

  static __device__ float widen(int8_t x) { return static_cast<float>(x); }
  static __device__ void widen_4(uint32_t four, float* out) {
    const uint32_t from_128 = four ^ 0x80808080u;
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = int8_at(from_128, i);
  }
  static __device__ float factor(float scale) { return scale; }

  // Infinite for NaN too.
  static __device__ float magnitude(float x) { return fabsf(x) < INFINITY ? fabsf(x) : INFINITY; }
  struct Rounding {
    float scale, inverse;  // an inverse of 0: all elements are 0
    __device__ explicit Rounding(float largest) {
      constexpr float kLeast = 1e-30f;  // below, 127 / largest could overflow
      const bool finite = largest < INFINITY, zero = !finite || largest < kLeast;
      scale = !finite ? __uint_as_float(0x7fc00000u) : zero ? 0.0f : largest / 127.0f;
      inverse = zero ? 0.0f : 127.0f / largest;
    }
    __device__ int8_t operator()(float x) const {
      return inverse == 0.0f ? int8_t{0} : static_cast<int8_t>(__float2int_rn(x * inverse));
    }
  };
};

template <class Stored>
constexpr bool kIn8Bits = std::is_same_v<Stored, F8> || std::is_same_v<Stored, I8>;

// The activations' type T.
template <class T>
struct Unscaled {
  using Element = T;
  static __device__ float widen(T x) { return to_float(x); }
};

// What a row's elements are multiplied with.
template <class Stored>
__device__ __forceinline__ float row_factor(const void* scales, int64_t row) {
  if constexpr (kIn8Bits<Stored>)
    return Stored::factor(static_cast<const typename Stored::Scale*>(scales)[row]);
  else
    return 1.0f;
}

// body(F8()) or body(I8()).
template <class Body>
void with_8_bits(DType pages, const Body& body) {
  switch (pages) {
    case DType::kF8E4M3: return body(F8());
    case DType::kI8: return body(I8());
    default: TANDEM_CHECK(false, "pages of this type");
  }
}
// The same, or body(Unscaled<T>()) for pages of the activations' type T.
template <class T, class Body>
void with_page_type(DType pages, const Body& body) {
  if (size_of(pages) == 1)
    with_8_bits(pages, body);
  else
    body(Unscaled<T>());
}

}  // namespace tandem::cuda
