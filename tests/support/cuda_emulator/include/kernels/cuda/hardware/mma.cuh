// Stands in for kernels/cuda/hardware/mma.cuh.
#pragma once

#include <cuda_emulated_mma.h>

namespace tandem::cuda {

using cuda_emulator::cp_async_16;
using cuda_emulator::cp_async_commit;
using cuda_emulator::cp_async_wait;
using cuda_emulator::ldmatrix_x2;
using cuda_emulator::ldmatrix_x2_trans;
using cuda_emulator::ldmatrix_x4;
using cuda_emulator::ldmatrix_x4_trans;
using cuda_emulator::mma_m16n8k16;

inline float exp2_fast(float x) { return exp2f(x); }

}  // namespace tandem::cuda
