// How entries of a row of logits are ordered.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace tandem::cuda {

__device__ __forceinline__ float minus_infinity() { return __int_as_float(0xff800000); }
__device__ __forceinline__ float plus_infinity() { return __int_as_float(0x7f800000); }

// An integer that orders floats as the selection does: greater is better, any NaN is best.
__device__ __forceinline__ int order_key(float x) {
  if (x != x) return 0x7fffffff;
  const int bits = __float_as_int(x == 0.0f ? 0.0f : x);  // -0 equals +0
  return bits >= 0 ? bits : bits ^ 0x7fffffff;
}

// Entries that a thread loads before it uses the first: one block is alone with its row's latency.
constexpr int kAhead = 8;

// Of entries i, i + step, ... below `end`: kAhead of them; `beyond` behind those.
__device__ __forceinline__ void load_ahead(const float* row, int i, int end, int step, float beyond,
                                           float (&x)[kAhead]) {
#pragma unroll
  for (int j = 0; j < kAhead; ++j) x[j] = i + j * step < end ? row[i + j * step] : beyond;
}

}  // namespace tandem::cuda
