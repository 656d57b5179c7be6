// Words that kernels of several devices, and the host, tell each other by. Release and acquire at
// the scope of the system: who reads a word that was stored so sees what was written before it,
// also by other threads of the storing block that met in __syncthreads() first.
#pragma once

#include <cstdint>

namespace tandem::cuda {

__device__ __forceinline__ void store_release_system(uint32_t* at, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ __forceinline__ uint32_t load_acquire_system(uint32_t* at) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
// To page-locked memory of the host, which reads it when the kernel has ended.
__device__ __forceinline__ void store_to_host(int32_t* at, int32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
// Of a clock that runs on while the device works; its steps may be of a microsecond.
__device__ __forceinline__ uint64_t global_nanoseconds() {
  uint64_t value;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
  return value;
}

}  // namespace tandem::cuda
