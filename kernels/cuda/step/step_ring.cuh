// A warp's ring of weights in shared memory.
//
// Which features a warp multiplies is known before the step begins. So the warp asks for weights as
// soon as a stage is free, across barriers and while it attends: the ring is full whenever the warp
// waits for something else. Each warp has a ring of its own, so nobody else has to be met before a
// stage is filled again.
//
// Bulk copies bring a stage from compute capability 9.0 on; before, each lane copies the pieces
// that it reads itself (cp.async).
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/hardware/bulk_copy.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/step/step_params.h"

namespace tandem::cuda::step {

__device__ __forceinline__ bool in_bulk(const Params& p) {
#if defined(__CUDA_ARCH__)
  (void)p;
  return __CUDA_ARCH__ >= 900;
#else
  return p.bulk;
#endif
}

// The units [begin, end) of a product that are the calling warp's.
struct Units {
  int begin, end;
  __device__ __forceinline__ Units(const Params& p, int product) {
    const int64_t warp = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarpSize;
    const int64_t warps = int64_t{gridDim.x} * kWarps, units = p.products[product].units;
    begin = static_cast<int>(units * warp / warps);
    end = static_cast<int>(units * (warp + 1) / warps);
  }
};

// Features that a warp multiplies at once, of `left` units.
__device__ __forceinline__ int features_at_once(bool gated, int left) {
  return gated || left > 1 ? 2 : 1;
}
// The stages of a feature.
template <class T>
__device__ __forceinline__ int stages_of(int k) {
  constexpr int kElements = kStageBytes / static_cast<int>(sizeof(T));
  return (k + kElements - 1) / kElements;
}

// The next stage to be asked for: parts of the features that are multiplied at once take turns.
template <class T>
class WeightFeed {
 public:
  __device__ explicit WeightFeed(const Params& p) : p_(p) { begin_product(); }

  __device__ bool ended() const { return layer_ == p_.num_layers; }
  __device__ const char* place() const {
    const int feature = unit_ + which_ * (gated() ? p_.inner : 1);
    return weight_ + int64_t{feature} * row_bytes() + int64_t{part_} * kStageBytes;
  }
  __device__ int bytes() const { return min(kStageBytes, row_bytes() - part_ * kStageBytes); }

  __device__ void advance() {
    if (++which_ < features_at_once(gated(), end_ - unit_)) return;
    which_ = 0;
    if (++part_ < stages_of<T>(p_.products[product_].k)) return;
    part_ = 0;
    unit_ += gated() ? 1 : features_at_once(false, end_ - unit_);
    if (unit_ < end_) return;
    next_product();
    begin_product();
  }

 private:
  __device__ bool gated() const { return p_.gated && product_ == kFirst; }
  __device__ int row_bytes() const { return p_.products[product_].k * static_cast<int>(sizeof(T)); }
  __device__ void next_product() {
    if (++product_ < kProducts) return;
    product_ = 0;
    ++layer_;
  }
  // The first from here on of which the warp has something.
  __device__ void begin_product() {
    for (; !ended(); next_product()) {
      const Units units(p_, product_);
      unit_ = units.begin;
      end_ = units.end;
      // (Asked for here, so that it is there when the next stage is sent.)
      weight_ = static_cast<const char*>(p_.layers[layer_].weights[product_]);
      if (unit_ < end_) return;
    }
  }

  const Params& p_;
  int layer_ = 0, product_ = 0;
  const char* weight_ = nullptr;  // of the product
  int unit_ = 0, end_ = 0;
  int part_ = 0;   // stage of the feature
  int which_ = 0;  // of the features at once
};

template <class T>
class WeightRing {
 public:
  __device__ WeightRing(const Params& p, unsigned char* shared) : p_(p), feed_(p) {
    const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
    barriers_ = reinterpret_cast<CopyBarrier*>(shared) + warp * p.stages;
    stages_ = shared + p.ring + warp * p.stages * kStageBytes;
    if (in_bulk(p) && lane() == 0) {
      for (int i = 0; i < p.stages; ++i) make_copy_barrier(barriers_ + i, 1);
      copy_barriers_made();
    }
    __syncwarp();
    for (int i = 0; i < p.stages; ++i) send(i);
  }

  // Waits for the next `count` stages. `count` is 1 or 2.
  __device__ __forceinline__ void wait(int count) {
    if (!in_bulk(p_)) return wait_for_copies(p_.stages - count);
    for (int i = 0; i < count; ++i)
      wait_for_phase(barriers_ + behind(i), slot_ + i < p_.stages ? parity_ : parity_ ^ 1u);
  }
  // The stage that is `i` behind the next one.
  __device__ __forceinline__ const uint4* stage(int i) const {
    return reinterpret_cast<const uint4*>(stages_ + behind(i) * kStageBytes);
  }
  // The warp has read the next `count` stages.
  __device__ __forceinline__ void release(int count) {
    if (in_bulk(p_)) __syncwarp();
    for (int i = 0; i < count; ++i) {
      send(slot_);
      if (++slot_ < p_.stages) continue;
      slot_ = 0;
      parity_ ^= 1u;
    }
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
  __device__ int behind(int i) const {
    return slot_ + i < p_.stages ? slot_ + i : slot_ + i - p_.stages;
  }

  __device__ __forceinline__ void send(int slot) {
    if (!feed_.ended()) {
      unsigned char* const to = stages_ + slot * kStageBytes;
      const char* const from = feed_.place();
      const int bytes = feed_.bytes();
      if (!in_bulk(p_)) {
        for (int at = lane() * 16; at < bytes; at += kWarpSize * 16)
          cp_async_16(to + at, from + at);
      } else if (lane() == 0) {
        arrive_and_expect(barriers_ + slot, static_cast<uint32_t>(bytes));
        bulk_copy(to, from, static_cast<uint32_t>(bytes), barriers_ + slot);
      }
      feed_.advance();
    }
    if (!in_bulk(p_)) cp_async_commit();
  }

  // At most `left` of the groups, a stage each, may still be under way.
  static __device__ __forceinline__ void wait_for_copies(int left) {
    if (left >= 8)
      cp_async_wait<8>();
    else if (left >= 4)
      cp_async_wait<4>();
    else if (left >= 2)
      cp_async_wait<2>();
    else if (left == 1)
      cp_async_wait<1>();
    else
      cp_async_wait<0>();
  }

  const Params& p_;
  WeightFeed<T> feed_;
  CopyBarrier* barriers_;
  unsigned char* stages_;
  int slot_ = 0;  // of the next stage
  uint32_t parity_ = 0;
};

}  // namespace tandem::cuda::step
