// Stands in for kernels/cuda/hardware/bulk_copy.cuh.
#pragma once

#include <cstdint>

#include "cuda_emulator.h"

namespace tandem::cuda {

using CopyBarrier = uint64_t;

inline void make_copy_barrier(CopyBarrier* barrier, uint32_t arrivals) {
  cuda_emulator::make_copy_barrier(barrier, arrivals);
}
inline void copy_barriers_made() { cuda_emulator::copy_barriers_made(); }
inline void arrive(CopyBarrier* barrier) { cuda_emulator::arrive_at_copies(barrier, 0); }
inline void arrive_and_expect(CopyBarrier* barrier, uint32_t bytes) {
  cuda_emulator::arrive_at_copies(barrier, bytes);
}
inline void wait_for_phase(CopyBarrier* barrier, uint32_t parity) {
  cuda_emulator::wait_for_copies(barrier, parity);
}
inline void bulk_copy(void* to, const void* from, uint32_t bytes, CopyBarrier* barrier) {
  cuda_emulator::bulk_copy(to, from, bytes, barrier);
}
// (Not modelled: here copies see what stores have left.)
inline void global_stores_before_copies() { cuda_emulator::maybe_yield(); }

}  // namespace tandem::cuda
