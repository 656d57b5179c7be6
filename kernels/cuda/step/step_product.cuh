// The products of a step's rows with a warp's weights: weight_rows' bits. A lane adds the same
// elements in the same order (kernels/cuda/linear/lane_sums.cuh), from shared memory.
#pragma once

#include <type_traits>

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/linear/lane_sums.cuh"
#include "kernels/cuda/step/step_ring.cuh"

namespace tandem::cuda::step {

// The sum of one row and feature; where it is, depends on the lane (spread_sums).
template <class T, int kRows, int kFeatures>
__device__ __forceinline__ float multiply_features(const T* rows, int num_rows, int k,
                                                   WeightRing<T>& ring) {
  constexpr int kElements = kVector<T>, kPieces = kStageBytes / 16;
  [[maybe_unused]] constexpr int kUnrolled = kRows < kMostRows ? 2 : 1;  // as registers allow
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int pieces = k / kElements;
  float sums[kRows * kFeatures] = {};
#pragma unroll 1
  for (int first = 0; first < pieces; first += kPieces) {
    ring.wait(kFeatures);
    const uint4* stages[kFeatures];
#pragma unroll
    for (int f = 0; f < kFeatures; ++f) stages[f] = ring.stage(f);
    const int here = min(kPieces, pieces - first);
#pragma unroll kUnrolled
    for (int at = lane; at < here; at += kWarpSize) {
      float weights[kFeatures][kElements];
#pragma unroll
      for (int f = 0; f < kFeatures; ++f) Plain<T>::widen(stages[f][at], 0, {}, weights[f]);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float values[kElements];
        load_part<true>(rows + min(r, num_rows - 1) * k + (first + at) * kElements, 0, values);
#pragma unroll
        for (int f = 0; f < kFeatures; ++f)
#pragma unroll
          for (int i = 0; i < kElements; ++i)
            sums[r * kFeatures + f] = fmaf(weights[f][i], values[i], sums[r * kFeatures + f]);
      }
    }
    ring.release(kFeatures);
  }
  return spread_sums<kRows * kFeatures>(sums);
}

// out = activation(W rows + bias) of the warp's features, rounded once.
// - rows: [num_rows, k] in shared memory.
// - bias: [units], or null.
// - out: [num_rows, units].
template <class T, int kRows>
__device__ __forceinline__ void multiply(const Params& p, int product, const T* rows, const T* bias,
                                         Activation activation, T* out, WeightRing<T>& ring) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const ProductShape shape = p.products[product];
  const Units units(p, product);
  const auto take = [&]<int kFeatures>(int first, std::integral_constant<int, kFeatures>) {
    constexpr int kLanes = kWarpSize / (kRows * kFeatures);  // that have one sum
    const int row = lane / kLanes / kFeatures, feature = first + lane / kLanes % kFeatures;
    // (On its way while the sums are made.)
    const float added = bias == nullptr ? 0.0f : to_float(bias[feature]);
    const float sum = multiply_features<T, kRows, kFeatures>(rows, p.rows, shape.k, ring);
    if (lane % kLanes == 0 && row < p.rows)
      out[int64_t{row} * shape.units + feature] =
          from_float<T>(activate(activation, fmaf(sum, 1.0f, added)));
  };
  int unit = units.begin;
#pragma unroll 1
  for (; unit + 1 < units.end; unit += 2) take(unit, std::integral_constant<int, 2>());
  if (unit < units.end) take(unit, std::integral_constant<int, 1>());
}

// out = activation(gate) * up, both rounded before as where they are stored (gated_activation).
template <class T, int kRows>
__device__ __forceinline__ void multiply_gated(const Params& p, const T* rows, const T* bias,
                                               T* out, WeightRing<T>& ring) {
  constexpr int kLanes = kWarpSize / (kRows * 2);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int row = lane / kLanes / 2;
  const bool of_up = lane / kLanes % 2 == 1;
  const Units units(p, kFirst);
#pragma unroll 1
  for (int unit = units.begin; unit < units.end; ++unit) {
    const float added = bias == nullptr ? 0.0f : to_float(bias[of_up ? unit + p.inner : unit]);
    const float sum = multiply_features<T, kRows, 2>(rows, p.rows, p.products[kFirst].k, ring);
    const float value = to_float(from_float<T>(fmaf(sum, 1.0f, added)));
    const float up = __shfl_down_sync(kFullWarp, value, kLanes);
    if (lane % kLanes == 0 && !of_up && row < p.rows)
      out[int64_t{row} * p.inner + unit] =
          from_float<T>(__fmul_rn(activate(p.activation, value), up));
  }
}

}  // namespace tandem::cuda::step
