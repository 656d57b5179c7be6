// How quantised weights lie in a device's memory, and who makes and takes them.
//
// An output feature has `pitch` bytes, a multiple of 64, the last of them zeros of its type:
//   int8: q + 128 of each weight, which is scale * q, |q| <= 127;
//   fp8:  e4m3, to be multiplied by the scale;
//   int4: 8 weights in 32 bits (element 2j in bits 4j, element 2j + 1 in bits 16 + 4j), which are
//         scale * (q - zero), q and zero from 0 to 15.
// Scales: [n] f32, or for int4 [n, groups of 128], where the last 4 bits of a scale are its zero
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
