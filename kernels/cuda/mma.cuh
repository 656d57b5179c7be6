// Tensor cores and asynchronous copies (hardware/mma.cuh), and sums over a warp.
#pragma once

#include "kernels/cuda/hardware/mma.cuh"
#include "kernels/cuda/launch.cuh"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#pragma nv_diag_suppress 177  // what only code for newer devices uses, here and in the files that
                              // include this
#endif

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

// The largest over a block, as block_sum() (kernels/cuda/device.cuh).
__device__ __forceinline__ float block_largest(float x, float* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  x = warp_max(x);
  if (lane == 0) scratch[warp] = x;
  __syncthreads();
  const float y = warp_max(lane < warps ? scratch[lane] : -INFINITY);
  __syncthreads();
  return y;
}

}  // namespace tandem::cuda
