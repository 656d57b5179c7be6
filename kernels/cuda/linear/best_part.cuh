// What some features say of a row of logits: their best entry, and the sum of exponentials below
// it. For heads that never have a whole row (linear_best.cu, best_tiles.cu).
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/linear/linear_best.h"
#include "kernels/cuda/row_best.cuh"

namespace tandem::cuda {

// Sum: of a few features float, of more double.
template <class Sum>
struct alignas(16) BestPart {
  float value;  // of the best; any NaN is best, then the largest
  int32_t id;   // of equals the lowest
  Sum sum;      // of exp(x - value); NaN with a NaN or +inf among them, 0 of -inf alone
};

template <class Sum>
__device__ __forceinline__ BestPart<Sum> no_part() {
  return {minus_infinity(), 0x7fffffff, Sum(0)};
}
template <class Sum>
__device__ __forceinline__ BestPart<Sum> part_of(float x, int32_t id) {
  return {x, id, x == minus_infinity() ? Sum(0) : Sum(x - x + 1.0f)};
}
__device__ __forceinline__ BestPart<double> widened(const BestPart<float>& part) {
  return {part.value, part.id, static_cast<double>(part.sum)};
}

// A product's sum and its bias.
__device__ __forceinline__ float logit_of(const BestProduct& b, float sum, float bias) {
  const float logit = fmaf(sum, 1.0f, bias);
  return b.soft_cap > 0.0f ? soft_capped(logit, b.soft_cap) : logit;
}

// The same for any order of the two.
template <class Sum>
__device__ __forceinline__ BestPart<Sum> joined(const BestPart<Sum>& a, const BestPart<Sum>& b) {
  const bool first = better({order_key(a.value), a.id}, {order_key(b.value), b.id});
  BestPart<Sum> best = first ? a : b;
  const BestPart<Sum> other = first ? b : a;
  best.sum += other.value == best.value
                  ? other.sum
                  : other.sum * static_cast<Sum>(expf(other.value - best.value));
  return best;
}

// Of the lane whose number differs in the bit `offset`.
template <class Sum>
__device__ __forceinline__ BestPart<Sum> part_beside(const BestPart<Sum>& part, int offset) {
  return {__shfl_xor_sync(kFullWarp, part.value, offset),
          __shfl_xor_sync(kFullWarp, part.id, offset),
          __shfl_xor_sync(kFullWarp, part.sum, offset)};
}
// Of `lanes` lanes side by side, in all of them.
template <class Sum>
__device__ __forceinline__ BestPart<Sum> joined_over(BestPart<Sum> part, int lanes) {
  for (int offset = 1; offset < lanes; offset *= 2) part = joined(part, part_beside(part, offset));
  return part;
}

__device__ __forceinline__ void tell(const BestAnswer& to, int64_t row,
                                     const BestPart<double>& all) {
  to.log_sums[row] = static_cast<float>(log_sum_of(Peak{all.value, all.sum, all.sum != all.sum}));
  const int32_t id = to.first_id + all.id;
  to.ids[row] = id;
  to.values[row] = all.value;
  if (to.best != nullptr) to.best[row] = id;
}

}  // namespace tandem::cuda
