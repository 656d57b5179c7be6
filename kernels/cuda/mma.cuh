// Tensor cores and asynchronous copies (hardware/mma.cuh), and sums over a warp.
#pragma once

#include "kernels/cuda/hardware/mma.cuh"
#include "kernels/cuda/launch.cuh"

namespace tandem::cuda {

// Of all lanes of the warp, in all of them.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int bits = kWarpSize / 2; bits > 0; bits /= 2)
    value += __shfl_xor_sync(kFullWarp, value, bits);
  return value;
}
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int bits = kWarpSize / 2; bits > 0; bits /= 2)
    value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, bits));
  return value;
}

}  // namespace tandem::cuda
