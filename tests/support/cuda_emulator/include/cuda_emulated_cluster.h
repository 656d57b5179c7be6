// What blocks of a cluster do in each other's shared memory besides reading it. Part of the CUDA
// emulator.
#pragma once

#include "cuda_emulator.h"

namespace cuda_emulator {

// `at`, `tile`: places of the running block, which stand for the same places of others.

// At the barrier of block `rank` of the cluster (mbarrier.arrive.shared::cluster).
void arrive_in_block(const uint64_t* at, unsigned rank);
// tensor_copy() to the first `blocks` blocks of the cluster, whose barriers count the bytes
// (.multicast::cluster).
void tensor_copy_to_blocks(void* tile, const TensorMatrix& matrix, int row, int column,
                           const uint64_t* at, unsigned blocks);

}  // namespace cuda_emulator
