// The layout of the memory that the ranks of a one-shot all-reduce share: flags, slots of data,
// then words that only its own device reads. Their use: one_shot_all_reduce.cu.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/collective/one_shot_all_reduce.h"

namespace tandem::cuda {

constexpr int kOneShotBlocks = 32;
constexpr size_t kSlotBytes = size_t{16} << 10;                          // of a block
constexpr size_t kRegionData = size_t{2} * kOneShotBlocks * kSlotBytes;  // two slots each
constexpr size_t kRegionFlags = 4096;
constexpr size_t kRegionOwn = 4096;
static_assert(kOneShotBlocks * OneShotGroup::kMaxRanks * sizeof(uint32_t) <= kRegionFlags);
// Whole pages of the device: only pages can be shared with another process.
constexpr size_t kRegionBytes = size_t{2} << 20;
static_assert(kRegionFlags + kRegionData + kRegionOwn <= kRegionBytes);

// The flag by which rank `from` tells this region's rank of its call.
__host__ __device__ inline uint32_t* flag_of(std::byte* region, int block, int from) {
  return reinterpret_cast<uint32_t*>(region) + block * OneShotGroup::kMaxRanks + from;
}
__host__ __device__ inline size_t slot_offset(int block, uint32_t epoch) {
  return kRegionFlags + (static_cast<size_t>(block) * 2 + epoch % 2) * kSlotBytes;
}
// [kOneShotBlocks] epochs, then the word `dead`.
__host__ __device__ inline uint32_t* own_words(std::byte* region) {
  return reinterpret_cast<uint32_t*>(region + kRegionFlags + kRegionData);
}

}  // namespace tandem::cuda
