// Addresses as instructions on shared memory take them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace tandem::cuda {

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

}  // namespace tandem::cuda
