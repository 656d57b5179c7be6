// Stands in for kernels/cuda/hardware/device_scope.cuh.
#pragma once

#include <cstdint>

#include "cuda_emulator.h"

namespace tandem::cuda {

inline void add_release_device(uint32_t* at, uint32_t value) {
  ::cuda_emulator::grid_add(at, value);
}
inline bool has_reached(uint32_t* at, uint32_t value) {
  return ::cuda_emulator::grid_reached(at, value);
}

}  // namespace tandem::cuda
