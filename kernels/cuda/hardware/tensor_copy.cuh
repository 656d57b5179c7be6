// Copies of boxes of a matrix to shared memory (TMA), of sm_90; what is compiled for older devices
// stops when it runs, so the host chooses.
//
// The host describes the matrix once (make_tensor_map), a launch has the description as a
// __grid_constant__ parameter, and one thread asks for a box. What lies outside of the matrix comes
// as zeros. Rows of a box are those of a tile (tile_descriptor.cuh), swizzled.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/hardware/bulk_copy.cuh"
#include "kernels/cuda/hardware/sm90.cuh"
#include "kernels/cuda/hardware/tile_descriptor.cuh"

namespace tandem::cuda {

using TensorMap = CUtensorMap;

// Host only. A matrix of 16-bit elements whose rows begin `pitch` bytes apart, a multiple of 16 as
// the address is; boxes of `box_rows` rows, 256 at most, and kTileK columns. False: the driver
// refuses.
inline bool make_tensor_map(TensorMap& map, const void* matrix, bool bf16, int64_t rows,
                            int64_t columns, int64_t pitch, int box_rows) {
  using Encode = decltype(&cuTensorMapEncodeTiled);
  static const Encode encode = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                                                12000, cudaEnableDefault, &result);
#else
    const cudaError_t status =
        cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result);
#endif
    const bool there = status == cudaSuccess && result == cudaDriverEntryPointSuccess;
    return there ? reinterpret_cast<Encode>(found) : nullptr;
  }();
  if (encode == nullptr) return false;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(columns), static_cast<cuuint64_t>(rows)};
  const cuuint64_t pitches[1] = {static_cast<cuuint64_t>(pitch)};
  const cuuint32_t box[2] = {kTileK, static_cast<cuuint32_t>(box_rows)}, steps[2] = {1, 1};
  return encode(&map, bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2,
                const_cast<void*>(matrix), sizes, pitches, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// By one thread: the box whose first element is [row, column] to a tile of the map's box. The
// barrier's phase counts the bytes of the whole box, those of zeros too. Whoever read what was
// there before must have met this thread since.
__device__ __forceinline__ void tensor_copy(void* tile, const TensorMap& map, int row, int column,
                                            CopyBarrier* barrier) {
  TANDEM_SM90(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(tile)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(barrier))
      : "memory");
}

// The same to the first `blocks` blocks of the cluster: each has the box where `tile` is, and its
// own barrier counts the bytes. All of them have met in cluster_barrier() since their barriers were
// made, and do once more before they end.
__device__ __forceinline__ void tensor_copy_to_blocks(void* tile, const TensorMap& map, int row,
                                                      int column, CopyBarrier* barrier,
                                                      unsigned blocks) {
  TANDEM_SM90(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(shared_address(tile)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(barrier)),
      "h"(static_cast<uint16_t>((1u << blocks) - 1))
      : "memory");
}

}  // namespace tandem::cuda
