// Clusters of sm_90: blocks that run at the same time and read each other's shared memory; what is
// compiled for older devices stops when it runs, so the host chooses. TANDEM_LAUNCH_CLUSTERS
// launches them, side by side in x.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/hardware/shared_address.cuh"

namespace tandem::cuda {

// Waits for all threads of all blocks of the cluster. What they wrote before is seen behind it. No
// block's shared memory is read before the first barrier, or behind the last one that it comes to.
__device__ __forceinline__ void cluster_barrier() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
  __trap();
#endif
}

// What stands where `own` is, a place in dynamic shared memory, in block `rank` of the cluster.
__device__ __forceinline__ float4 load_from_block(const float4* own, unsigned rank) {
  float4 value{};
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  uint32_t there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(own)), "r"(rank));
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(there)
               : "memory");
#else
  __trap();
#endif
  return value;
}

// At the copy barrier (bulk_copy.cuh) that stands where `own` is in block `rank` of the cluster.
// What the thread did before is seen by who waits there.
__device__ __forceinline__ void arrive_in_block(uint64_t* own, unsigned rank) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n\t"
      ".reg .b32 there;\n\t"
      "mapa.shared::cluster.u32 there, %0, %1;\n\t"
      "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n\t"
      "}" ::"r"(shared_address(own)),
      "r"(rank)
      : "memory");
#else
  __trap();
#endif
}

}  // namespace tandem::cuda
