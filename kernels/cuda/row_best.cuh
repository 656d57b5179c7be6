// The best entry of a row of logits and the log of the sum of its exponentials, from parts of it.
#pragma once

#include "kernels/cuda/row_order.cuh"

namespace tandem::cuda {

struct Best {
  int key;
  int32_t id;  // of equals the lower one is better
};
__device__ __forceinline__ bool better(const Best& a, const Best& b) {
  return a.key > b.key || (a.key == b.key && a.id < b.id);
}
__device__ __forceinline__ Best warp_best(Best best) {
  for (int offset = 16; offset > 0; offset /= 2) {
    const Best other = {__shfl_xor_sync(kFullWarp, best.key, offset),
                        __shfl_xor_sync(kFullWarp, best.id, offset)};
    if (better(other, best)) best = other;
  }
  return best;
}
__device__ __forceinline__ Best nothing() { return {static_cast<int>(0x80000000), 0x7fffffff}; }

// Maximum and sum of exponentials over it, of some of the entries.
struct Peak {
  float peak;
  double sum;
  bool invalid;  // a NaN or +inf
};
// The same for any order of the two: what is not symmetric is exact.
__device__ __forceinline__ Peak joined(const Peak& a, const Peak& b) {
  const float peak = fmaxf(a.peak, b.peak);
  const auto scaled = [&](const Peak& p) {
    return p.peak == peak ? p.sum : p.sum * static_cast<double>(expf(p.peak - peak));
  };
  return {peak, peak == minus_infinity() ? 0.0 : scaled(a) + scaled(b), a.invalid || b.invalid};
}

__device__ __forceinline__ double log_sum_of(const Peak& p) {
  if (p.invalid) return static_cast<double>(__int_as_float(0x7fc00000));
  if (p.peak == minus_infinity()) return static_cast<double>(minus_infinity());
  return static_cast<double>(p.peak) + log(p.sum);
}

}  // namespace tandem::cuda
