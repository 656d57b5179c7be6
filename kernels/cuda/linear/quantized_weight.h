// The layout of quantised weights in a device's memory.
//
// An output feature has `pitch` bytes, a multiple of 64. The last of them are zeros of its type.
//   In int8: q + 128 of each weight, which is scale * q, |q| <= 127.
//   In fp8: e4m3, to be multiplied by the scale.
//   In int4: 8 weights in 32 bits: element 2j in bits 4j, element 2j + 1 in bits 16 + 4j.
//   A weight is scale * (q - zero), with q and zero from 0 to 15.
// Scales: [n] f32, or for int4 [n, groups of 128]. In int4 the last 4 bits of a scale are its zero
// (the scale's own are 0).
#pragma once

#include <cstdint>

#include "kernels/core/quantization.h"

namespace tandem::cuda {

constexpr int kQuantizedGroup = 128;

constexpr int64_t quantized_pitch(Quantization q, int64_t k) {
  return q == Quantization::kInt4 ? (k + 127) / 128 * 64 : (k + 63) / 64 * 64;
}

constexpr int64_t quantized_groups(int64_t k) {
  return (k + kQuantizedGroup - 1) / kQuantizedGroup;
}

}  // namespace tandem::cuda
