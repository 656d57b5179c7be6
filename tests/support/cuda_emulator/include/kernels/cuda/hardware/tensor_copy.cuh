// Stands in for kernels/cuda/hardware/tensor_copy.cuh.
#pragma once

#include <cuda_emulated_cluster.h>

#include <cstdint>

#include "kernels/cuda/hardware/bulk_copy.cuh"
#include "kernels/cuda/hardware/tile_descriptor.cuh"

namespace tandem::cuda {

using TensorMap = cuda_emulator::TensorMatrix;

inline bool make_tensor_map(TensorMap& map, const void* matrix, bool, int64_t rows, int64_t columns,
                            int64_t pitch, int box_rows) {
  map = {static_cast<const unsigned char*>(matrix), rows, columns, pitch, box_rows};
  return reinterpret_cast<uintptr_t>(matrix) % 16 == 0 && pitch % 16 == 0 && rows > 0 &&
         columns > 0 && box_rows > 0 && box_rows <= 256;
}

inline void tensor_copy(void* tile, const TensorMap& map, int row, int column,
                        CopyBarrier* barrier) {
  cuda_emulator::tensor_copy(tile, map, row, column, barrier);
}
inline void tensor_copy_to_blocks(void* tile, const TensorMap& map, int row, int column,
                                  CopyBarrier* barrier, unsigned blocks) {
  cuda_emulator::tensor_copy_to_blocks(tile, map, row, column, barrier, blocks);
}

}  // namespace tandem::cuda
