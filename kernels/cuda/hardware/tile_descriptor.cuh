// How warp groups' products (warpgroup.cuh) find a tile in shared memory.
//
// A tile has rows of 64 elements of k in 16 bits, 128 bytes, one after another, and begins at a
// multiple of 1024 bytes. Within 8 rows the pieces of 16 bytes are swizzled: piece i of row r lies
// where piece i ^ (r % 8) would. A descriptor has, in units of 16 bytes, the first address (bits 0
// to 13) and the distance between two groups of 8 rows (32 to 45), and the swizzle (62 and 63: 1 is
// of 128 bytes). Bits 16 to 29 are not used with this swizzle.
#pragma once

#include <cstdint>

#include "kernels/cuda/hardware/shared_address.cuh"

namespace tandem::cuda {

constexpr int kTileK = 64;  // elements of k in a tile
constexpr int kTileRowBytes = 2 * kTileK;
constexpr int kTileAlignment = 1024;

// Of the tile's first 16 elements of k.
__device__ __forceinline__ uint64_t tile_descriptor(const void* tile) {
  constexpr uint64_t kSwizzle = uint64_t{1} << 62, kUnused = uint64_t{1} << 16,
                     kEightRows = uint64_t{8 * kTileRowBytes / 16} << 32;
  return kSwizzle | kEightRows | kUnused | (shared_address(tile) & 0x3ffffu) >> 4;
}
// The descriptor of the 16 elements that come `steps` times 16 later. (Hardware swizzles addresses,
// so these are 32 bytes further in each row.)
__device__ __forceinline__ uint64_t later_in_k(uint64_t descriptor, int steps) {
  return descriptor + static_cast<uint64_t>(steps) * 2;
}
// That of the rows which come `rows` later, a multiple of 8.
__device__ __forceinline__ uint64_t later_rows(uint64_t descriptor, int rows) {
  return descriptor + static_cast<uint64_t>(rows) * (kTileRowBytes / 16);
}

}  // namespace tandem::cuda
