// How kernels of this folder are written. What is of the hardware alone is in
// kernels/cuda/hardware, whose headers may be stood in for by others of the same path: so kernels
// compile as plain C++.
//
// TANDEM_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...); a kernel template in
// parentheses: TANDEM_LAUNCH((norm<float, 4>), ...). What a kernel does first is
// wait_for_earlier_kernels().
// TANDEM_LAUNCH_CLUSTERS(kernel, grid, block, cluster, ...): the same in clusters of `cluster`
// blocks, 1 to 8, side by side in x (kernels/cuda/hardware/cluster.cuh).
// TANDEM_LAUNCH_COOPERATIVE(kernel, grid, block, ...): all blocks run at the same time, so that
// they may wait for each other (kernels/cuda/hardware/device_scope.cuh). Never before the earlier
// kernels have ended. A launch of more blocks than the device has room for fails.
// TANDEM_DYNAMIC_SHARED(name): unsigned char* name, the dynamic shared memory, 128-byte aligned.
//
// wait_for_earlier_kernels(): every thread of every kernel begins with it. What earlier kernels of
// the stream wrote is there when it returns, and later kernels may be launched then, who wait here
// in turn. (A grid that ended without waiting could end before an earlier one, on whom those behind
// it rely.)
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string>

#include "base/check.h"
#include "kernels/cuda/hardware/launch.cuh"
#include "kernels/cuda/host/failure.h"
#include "kernels/cuda/host/launch_stream.h"

namespace tandem::cuda {

// Dynamic shared memory that every kernel may be launched with: more has to be asked for.
constexpr int64_t kUsualSharedBytes = 48 << 10;

constexpr unsigned kFullWarp = 0xffffffffu;
constexpr int kWarpSize = 32;

// Asks for 128 bytes to be in the L2 cache soon: allowed before the wait, for what is constant.
__device__ __forceinline__ void prefetch(const void* line) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
#endif
}

// For calls that do not fail, except where the device does or a recording does not take them
// (kernels/cuda/host/failure.h). Where the caller handles a failure (memory) it asks itself.
#define TANDEM_CUDA_CHECK(call)                                               \
  do {                                                                        \
    const cudaError_t tandem_status_ = (call);                                \
    if (tandem_status_ != cudaSuccess) [[unlikely]]                           \
      ::tandem::cuda::cuda_failed(__FILE__, __LINE__, #call, tandem_status_); \
  } while (false)

}  // namespace tandem::cuda
