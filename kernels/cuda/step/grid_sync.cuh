// A barrier of all blocks of a cooperative launch, for thread 0 of each.
//
// A counter in device memory only grows: each block adds 1 at each barrier and waits until all
// have. Where it stood when the launch began is a word beside it. All blocks read that word in
// front of the first barrier; behind it block 0 writes what it will be for the next launch. So
// nothing has to be set back between launches.
//
// A wait ends in any case: by the host's word, or by the clock. Then no block waits any more, in
// this launch and all that follow. The kernel runs to its end, with results that are wrong, and the
// host is told.
#pragma once

#include "kernels/cuda/hardware/device_scope.cuh"
#include "kernels/cuda/hardware/system_scope.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/step/step_params.h"

namespace tandem::cuda::step {

class GridSync {
 public:
  __device__ explicit GridSync(const BarrierPlaces& places) : at_(places) {
    if (threadIdx.x != 0) return;
    target_ = at_.words[kBegan];
    lost_ = load_acquire_system(at_.words + kGivenUp) != 0;
  }

  // What any block wrote before is seen by all behind it. All threads of the block.
  __device__ __forceinline__ void meet() {
    __syncthreads();
    if (threadIdx.x == 0) {
      target_ += gridDim.x;
      add_release_device(at_.words + kCounter, 1);
      if (!lost_) lost_ = !wait();
    }
    __syncthreads();
  }

  // Behind the last barrier.
  __device__ void end() {
    if (blockIdx.x == 0 && threadIdx.x == 0) at_.words[kBegan] = target_;
  }

 private:
  enum Word : int { kCounter, kBegan, kGivenUp };

  __device__ bool wait() {
    uint64_t start = 0;
    for (uint32_t turn = 1; !has_reached(at_.words + kCounter, target_); ++turn) {
      if (turn % 256 != 0) continue;
      const uint64_t now = global_nanoseconds();
      if (start == 0) start = now;
      const bool over = load_acquire_system(at_.aborted) != 0 || now - start > at_.timeout;
      if (!over && load_acquire_system(at_.words + kGivenUp) == 0) continue;
      store_release_system(at_.words + kGivenUp, 1);
      store_release_system(at_.failed, 1);
      return false;
    }
    return true;
  }

  const BarrierPlaces& at_;
  uint32_t target_ = 0;
  bool lost_ = false;
};

}  // namespace tandem::cuda::step
