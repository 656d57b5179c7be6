// How rows of a head lie in the lanes of a block of attention_rows.
#pragma once

#include "kernels/cuda/attention/attention_common.cuh"
#include "kernels/cuda/device.cuh"

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

  // The element that a lane's `i`th is: so far behind its first.
  static __device__ int first() { return static_cast<int>(threadIdx.x) % kLanes * kElements; }
  static constexpr __device__ int behind_first(int i) {
    return i / kElements * kLanes * kElements + i % kElements;
  }
  static __device__ int element(int i) { return first() + behind_first(i); }
};

// A lane's part of a row, as loaded.
template <class Type, int kDim, bool kAligned>
struct Slice {
  using L = Lanes<Type, kDim>;
  uint4 bits[L::kVectors];

  __device__ void load(const typename Type::Element* row, int head_dim) {
    load_lane(row + L::first(), head_dim);
  }
  // `row`: at the lane's first element.
  __device__ void load_lane(const typename Type::Element* row, int head_dim) {
#pragma unroll
    for (int i = 0; i < L::kVectors; ++i)
      bits[i] = L::element(i * L::kElements) < head_dim
                    ? load_as<uint4>(row + L::behind_first(i * L::kElements))
                    : uint4{0, 0, 0, 0};
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
    load_lane(row + L::first(), head_dim);
  }
  __device__ void load_lane(const typename Type::Element* row, int head_dim) {
#pragma unroll
    for (int i = 0; i < L::kSlice; ++i)
      values[i] = L::element(i) < head_dim ? Type::widen(row[L::behind_first(i)]) : 0.0f;
  }
  __device__ void widen(float (&out)[L::kSlice]) const {
#pragma unroll
    for (int i = 0; i < L::kSlice; ++i) out[i] = values[i];
  }
};

// A lane's part of a key or a value, and what its sum is to be multiplied with.
template <class Type, class Stored, int kDim, bool kAligned>
struct KvSlice : Slice<Type, kDim, kAligned> {
  __device__ float scaled(float x) const { return x; }
};

template <class Type, class Stored, int kDim>
requires(kIn8Bits<Stored>) struct KvSlice<Type, Stored, kDim, true> {
  using L = Lanes<Type, kDim>;
  static constexpr int kWords = L::kElements / 4;  // of 4 bytes: a lane has as many elements
  struct alignas(4 * kWords) Words {
    uint32_t words[kWords];
  };
  Words bits[L::kVectors];
  typename Stored::Loaded scale;

  __device__ void load_lane(const typename Stored::Element* row, int head_dim) {
#pragma unroll
    for (int i = 0; i < L::kVectors; ++i) {
      const int at = L::behind_first(i * L::kElements);
      bits[i] = {};
      if (L::element(i * L::kElements) < head_dim) {
        if constexpr (kWords == 2) {
          const uint2 pair = load_as<uint2>(row + at);
          bits[i].words[0] = pair.x;
          bits[i].words[1] = pair.y;
        } else {
          bits[i].words[0] = load_as<uint32_t>(row + at);
        }
      }
    }
  }
  __device__ void widen(float (&out)[L::kSlice]) const {
#pragma unroll
    for (int i = 0; i < L::kSlice; i += 4)
      Stored::widen_4(bits[i / L::kElements].words[i % L::kElements / 4], out + i);
  }
  __device__ float scaled(float x) const { return x * Stored::factor(scale); }
};

template <class Type, class Stored, int kDim>
requires(kIn8Bits<Stored>) struct KvSlice<Type, Stored, kDim, false> {
  using L = Lanes<Type, kDim>;
  float values[L::kSlice];
  typename Stored::Loaded scale;

  __device__ void load_lane(const typename Stored::Element* row, int head_dim) {
#pragma unroll
    for (int i = 0; i < L::kSlice; ++i)
      values[i] = L::element(i) < head_dim ? Stored::widen(row[L::behind_first(i)]) : 0.0f;
  }
  __device__ void widen(float (&out)[L::kSlice]) const {
#pragma unroll
    for (int i = 0; i < L::kSlice; ++i) out[i] = values[i];
  }
  __device__ float scaled(float x) const { return x * Stored::factor(scale); }
};

}  // namespace tandem::cuda::rows
