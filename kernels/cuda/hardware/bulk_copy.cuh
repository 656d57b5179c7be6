// Bulk copies from global to shared memory and the barriers that count their bytes (mbarriers), of
// sm_90; what is compiled for older devices stops when it runs, so the host chooses.
//
// A barrier is 8 bytes of shared memory. It has phases: one ends when as many threads have arrived
// as it was made for, and as many bytes have come as they said to expect; the next one begins at
// once. Who waits says the parity of the phase: 0 of the first one.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/hardware/shared_address.cuh"
#include "kernels/cuda/hardware/sm90.cuh"

namespace tandem::cuda {

using CopyBarrier = uint64_t;

// By one thread, which then calls copy_barriers_made() once for all it has made; others may use
// them behind a barrier of the block.
__device__ __forceinline__ void make_copy_barrier(CopyBarrier* barrier, uint32_t arrivals) {
  TANDEM_SM90("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
              "r"(arrivals)
              : "memory");
}
__device__ __forceinline__ void copy_barriers_made() {
  TANDEM_SM90("fence.mbarrier_init.release.cluster;" ::: "memory");
  TANDEM_SM90("fence.proxy.async.shared::cta;" ::: "memory");
}

// What the thread did before is seen by who waits for the phase.
__device__ __forceinline__ void arrive(CopyBarrier* barrier) {
  TANDEM_SM90("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// And says how many bytes are to come in this phase, less than 2^20.
__device__ __forceinline__ void arrive_and_expect(CopyBarrier* barrier, uint32_t bytes) {
  TANDEM_SM90(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

// Until the phase of this parity has ended. It must be the current phase or the one before it.
__device__ __forceinline__ void wait_for_phase(CopyBarrier* barrier, uint32_t parity) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  const uint32_t at = shared_address(barrier);
  uint32_t done;
  do {
    asm volatile(
        "{\n\t"
        ".reg .pred ended;\n\t"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n\t"
        "selp.u32 %0, 1, 0, ended;\n\t"
        "}"
        : "=r"(done)
        : "r"(at), "r"(parity)
        : "memory");
  } while (done == 0);
#else
  __trap();
#endif
}

// By one thread: `bytes`, a multiple of 16, from global to shared memory, both 16-byte aligned. The
// barrier's phase counts them. Whoever read what was there before must have met this thread since;
// whoever wrote there, or wrote what is copied, has called a fence below before they met.
__device__ __forceinline__ void bulk_copy(void* to, const void* from, uint32_t bytes,
                                          CopyBarrier* barrier) {
  TANDEM_SM90(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// Between a thread's own stores to global memory and bulk copies of what they wrote.
__device__ __forceinline__ void global_stores_before_copies() {
  TANDEM_SM90("fence.proxy.async.global;" ::: "memory");
}

}  // namespace tandem::cuda
