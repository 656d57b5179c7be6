// Stands in for kernels/cuda/hardware/system_scope.cuh.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "cuda_emulator.h"

namespace tandem::cuda {

inline void store_release_system(uint32_t* at, uint32_t value) {
  cuda_emulator::maybe_yield();
  std::atomic_ref<uint32_t>(*at).store(value, std::memory_order_release);
}
// (It is there when something waits for the kernel, and no sooner.)
inline void store_to_host(int32_t* at, int32_t value) { cuda_emulator::store_late(at, value); }
// (Who reads such a word waits for it, so that others may go on.)
inline uint32_t load_acquire_system(uint32_t* at) {
  cuda_emulator::spin();
  return std::atomic_ref<uint32_t>(*at).load(std::memory_order_acquire);
}
inline uint64_t global_nanoseconds() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace tandem::cuda
