// Words by which blocks of a device tell each other how far they are. Release and acquire at the
// scope of the device: who has seen a word reached sees what was written before it was added to,
// also by other threads of the adding block that met in __syncthreads() first.
#pragma once

#include <cstdint>

namespace tandem::cuda {

__device__ __forceinline__ void add_release_device(uint32_t* at, uint32_t value) {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}

// Whether the word, which grows and may begin anew behind 2^32 - 1, is at least `value`. Blocks
// wait for each other so, in cooperative launches alone (TANDEM_LAUNCH_COOPERATIVE).
__device__ __forceinline__ bool has_reached(uint32_t* at, uint32_t value) {
  uint32_t now;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(at) : "memory");
  if (static_cast<int32_t>(now - value) < 0) return false;
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  return true;
}

}  // namespace tandem::cuda
