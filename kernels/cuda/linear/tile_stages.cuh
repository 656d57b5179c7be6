// Products of 16-bit weights on tensor cores (best_tiles.cu, cluster_tiles.cu): a block of 256
// threads has some features and 16 to 128 tokens; weights pass through shared memory in stages of
// 64 elements of k, and rows of x lie there whole or in such stages too.
//
// A sum adds its elements in the same order whatever the tokens and features of the block.
#pragma once

#include "kernels/cuda/linear/weight_products.h"
#include "kernels/cuda/mma.cuh"

namespace tandem::cuda::tiles {

constexpr int kThreads = 256, kWarps = kThreads / kWarpSize;
constexpr int kFeatureGroups = 4;  // of warps; the others share the tokens
constexpr int kTokenGroups = kWarps / kFeatureGroups;
constexpr int kStep = 64;   // elements of k
constexpr int kPiece = 8;   // elements of 16 bytes
constexpr int kStages = 4;  // of which all but one are on their way

// Half a step of each feature (or token) after the other: 64 bytes of a row and of the next are in
// different banks.
template <int kRows>
struct Stage {
  alignas(16) unsigned char bytes[2][kRows][kStep];
};

// Elements from a token's row in shared memory to the next, so that two rows are in different
// banks.
__host__ __device__ constexpr int row_pitch(int64_t k) {
  return static_cast<int>((k + kStep - 1) / kStep) * kStep + 32;
}
__host__ __device__ constexpr int64_t steps_of(int64_t k) { return (k + kStep - 1) / kStep; }

// Rows of a matrix of k columns that begin `pitch` bytes apart, from `first` on; zeros behind the
// last one, `rows` - 1, and behind k.
template <int kRows>
__device__ __forceinline__ void load_stage(const void* matrix, int64_t rows, int64_t pitch,
                                           int64_t columns, Stage<kRows>& stage, int64_t first,
                                           int64_t step) {
  constexpr int kPieces = kStep / kPiece;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPieces; i += kThreads) {
    const int row = i / kPieces, piece = i % kPieces;
    const int64_t k = step * kStep + piece * kPiece;
    const bool there = first + row < rows && k < columns;  // columns % 8 = 0
    cp_async_16(&stage.bytes[piece / 4][row][piece % 4 * 16],
                static_cast<const char*>(matrix) + (there ? (first + row) * pitch + k * 2 : 0),
                there);
  }
}
template <int kFeatures>
__device__ __forceinline__ void load_stage(const WeightProduct& p, Stage<kFeatures>& stage,
                                           int64_t feature, int64_t step) {
  load_stage(p.weight, p.n, p.pitch, p.k, stage, feature, step);
}

// The stages of a block, of which the first kStages - 1 were asked for, a group each.
template <int kFeatures>
class Ring {
 public:
  __device__ __forceinline__ explicit Ring(Stage<kFeatures>* stages) : stages_(stages) {}
  // The next stage, once all threads have it and use the last one no more; load(stage) asks for
  // that which takes the last one's place.
  template <class Load>
  __device__ __forceinline__ const Stage<kFeatures>& next(const Load& load) {
    cp_async_wait<kStages - 2>();
    __syncthreads();
    load(stages_[current_ == 0 ? kStages - 1 : current_ - 1]);
    cp_async_commit();
    const Stage<kFeatures>& stage = stages_[current_];
    current_ = current_ + 1 == kStages ? 0 : current_ + 1;
    return stage;
  }

 private:
  Stage<kFeatures>* stages_;
  int current_ = 0;
};

// Of one warp: a quarter of the features by a part of the tokens. Of each 16 features (`m`) and 8
// tokens (`t`) a lane has features lane / 4 and lane / 4 + 8, and tokens lane % 4 * 2 and the next.
template <class T, int kFeatures, int kTokens>
struct WarpSums {
  static constexpr int kOwn = kTokens / kTokenGroups;  // tokens
  static constexpr int kOwnFeatures = kFeatures / kFeatureGroups;
  static constexpr int kMmas = kOwnFeatures / 16;
  float sums[kMmas][kOwn / 8][4] = {};

  static __device__ __forceinline__ int first_token() {
    return static_cast<int>(threadIdx.x) / kWarpSize / kFeatureGroups * kOwn;
  }
  static __device__ __forceinline__ int feature_group() {
    return static_cast<int>(threadIdx.x) / kWarpSize % kFeatureGroups;
  }
  static __device__ __forceinline__ int first_feature() { return feature_group() * kOwnFeatures; }

  // `rows`: the step's elements of the block's tokens, `pitch` elements from one to the next, and
  // `half_pitch` from the first half of the step to the second.
  __device__ __forceinline__ void add(const Stage<kFeatures>& stage, const T* rows, int pitch,
                                      int half_pitch = kStep / 2) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize, pair = lane % 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t a[kMmas][2][4];
#pragma unroll
      for (int m = 0; m < kMmas; ++m) {
        const auto weights = [&](int row) {
          return *reinterpret_cast<const uint4*>(&stage.bytes[half][row][pair * 16]);
        };
        const int feature = first_feature() + m * 16 + lane / 4;
        const uint4 low = weights(feature), high = weights(feature + 8);
        const uint32_t fragments[2][4] = {{low.x, high.x, low.y, high.y},
                                          {low.z, high.z, low.w, high.w}};
#pragma unroll
        for (int i = 0; i < 8; ++i) a[m][i / 4][i % 4] = fragments[i / 4][i % 4];
      }
#pragma unroll
      for (int t = 0; t < kOwn / 8; ++t) {
        const uint4 b = *reinterpret_cast<const uint4*>(
            rows + (first_token() + t * 8 + lane / 4) * pitch + half * half_pitch + pair * kPiece);
#pragma unroll
        for (int m = 0; m < kMmas; ++m) {
          mma_m16n8k16<T>(sums[m][t], a[m][0], {b.x, b.y});
          mma_m16n8k16<T>(sums[m][t], a[m][1], {b.z, b.w});
        }
      }
    }
  }
};

}  // namespace tandem::cuda::tiles
