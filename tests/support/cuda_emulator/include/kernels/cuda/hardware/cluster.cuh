// Stands in for kernels/cuda/hardware/cluster.cuh.
#pragma once

#include <cuda_emulated_cluster.h>

#include <cstdint>
#include <cstring>

namespace tandem::cuda {

inline void cluster_barrier() { ::cuda_emulator::cluster_barrier(); }

inline float4 load_from_block(const float4* own, unsigned rank) {
  float4 value;
  std::memcpy(&value, ::cuda_emulator::in_block_of_cluster(own, sizeof value, rank), sizeof value);
  return value;
}

inline void arrive_in_block(uint64_t* own, unsigned rank) {
  ::cuda_emulator::arrive_in_block(own, rank);
}

}  // namespace tandem::cuda
