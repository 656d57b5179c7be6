// How rows of a head lie in the lanes of a block of attention_rows.
#pragma once

#include "kernels/cuda/attention_common.cuh"

namespace tandem::cuda::rows {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarpSize;

// How heads of up to kDim elements lie in lanes.
template <class Type, int kDim>
struct Lanes {
  static constexpr int kElements = 16 / static_cast<int>(sizeof(typename Type::Element));
  static constexpr int kVectors = kDim > kElements* kWarpSize ? kDim / (kElements * kWarpSize) : 1;
  static constexpr int kSlice = kElements * kVectors;  // elements of a lane
  static constexpr int kLanes = kDim / kSlice;         // of a key
  static constexpr int kGroups = kThreads / kLanes;    // keys of a block at a time

  // The element that a lane's `i`th is.
  static __device__ int element(int i) {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    return (i / kElements * kLanes + lane) * kElements + i % kElements;
  }
};

// A lane's part of a row, as loaded.
template <class Type, int kDim, bool kAligned>
struct Slice {
  using L = Lanes<Type, kDim>;
  uint4 bits[L::kVectors];

  __device__ void load(const typename Type::Element* row, int head_dim) {
#pragma unroll
    for (int i = 0; i < L::kVectors; ++i) {
      const int at = L::element(i * L::kElements);
      bits[i] = at < head_dim ? __ldg(reinterpret_cast<const uint4*>(row + at)) : uint4{0, 0, 0, 0};
    }
  }
  __device__ void widen(float (&out)[L::kSlice]) const {
#pragma unroll
    for (int i = 0; i < L::kVectors; ++i) Type::widen_16_bytes(bits[i], out + i * L::kElements);
  }
};

// Of rows that begin anywhere.
template <class Type, int kDim>
struct Slice<Type, kDim, false> {
  using L = Lanes<Type, kDim>;
  float values[L::kSlice];

  __device__ void load(const typename Type::Element* row, int head_dim) {
#pragma unroll
    for (int i = 0; i < L::kSlice; ++i) {
      const int at = L::element(i);
      values[i] = at < head_dim ? Type::widen(row[at]) : 0.0f;
    }
  }
  __device__ void widen(float (&out)[L::kSlice]) const {
#pragma unroll
    for (int i = 0; i < L::kSlice; ++i) out[i] = values[i];
  }
};

}  // namespace tandem::cuda::rows
