// Words that kernels of several devices, and the host, tell each other by. Release and acquire at
// the scope of the system: who reads a word that was stored so sees what was written before it,
// also by other threads of the storing block that met in __syncthreads() first.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.cuh"

#if defined(TANDEM_CUDA_EMULATED)
#include <atomic>
#include <chrono>
#endif

namespace tandem::cuda {

#if defined(TANDEM_CUDA_EMULATED)

inline void store_release_system(uint32_t* at, uint32_t value) {
  cuda_emulator::maybe_yield();
  std::atomic_ref<uint32_t>(*at).store(value, std::memory_order_release);
}
// (Who reads such a word waits for it, so that others may go on.)
inline uint32_t load_acquire_system(uint32_t* at) {
  cuda_emulator::spin();
  return std::atomic_ref<uint32_t>(*at).load(std::memory_order_acquire);
}
inline uint64_t global_nanoseconds() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

#else

__device__ __forceinline__ void store_release_system(uint32_t* at, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(value) : "memory");
}
__device__ __forceinline__ uint32_t load_acquire_system(uint32_t* at) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(at) : "memory");
  return value;
}
// Of a clock that runs on while the device works; its steps may be of a microsecond.
__device__ __forceinline__ uint64_t global_nanoseconds() {
  uint64_t value;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
  return value;
}

#endif

}  // namespace tandem::cuda
