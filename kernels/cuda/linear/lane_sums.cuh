// A warp's products of few rows: it reads some features' weights once, 16 bytes a lane, for all
// rows, and adds in f32.
//
// The order of a sum is the same for any number of rows: a lane adds its elements (every 32nd piece
// of 16 bytes of the weight) in their order, then lanes are added in a tree.
#pragma once

#include <type_traits>

#include "kernels/cuda/linear/weight_products.h"
#include "kernels/cuda/stored.cuh"

namespace tandem::cuda {

// Elements [0, kCount) of x, `left` of which are there; zeros beyond. kWhole: all are, at a
// multiple of 16 bytes, and nothing is asked, so that the loads of several rows go out together.
template <bool kWhole, int kCount, class T>
__device__ __forceinline__ void load_part(const T* from, int64_t left, float (&out)[kCount]) {
  if constexpr (kWhole) {
#pragma unroll
    for (int i = 0; i < kCount; i += kVector<T>) {
      const uint4 raw = load_as<uint4>(from + i);
      float to[kVector<T>];
      Plain<T>::widen(raw, 0, {}, to);
#pragma unroll
      for (int j = 0; j < kVector<T>; ++j) out[i + j] = to[j];
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) out[i] = i < left ? to_float(from[i]) : 0.0f;
  }
}

// The 16 bytes of a feature that begin with element `at`.
template <class Kind, bool kWhole>
struct Stored {
  static __device__ __forceinline__ uint4 load(const void* row, int64_t at, int64_t) {
    constexpr int kPieces = Kind::kElements;
    return __ldg(reinterpret_cast<const uint4*>(row) + at / kPieces);
  }
};
// Rows that are not padded, nor perhaps aligned.
template <class T>
struct Stored<Plain<T>, false> {
  static __device__ __forceinline__ uint4 load(const void* row, int64_t at, int64_t k) {
    const T* from = static_cast<const T*>(row) + at;
    union {
      uint4 raw;
      Vector<T> vector;
    } all{};
    all.raw = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i)
      if (at + i < k) all.vector.values[i] = from[i];
    return all.raw;
  }
};

// Adds over the warp; lane l gets the sum of value l / (32 / kSize). Each of the first steps halves
// the values of a lane, kCount before it. (A recursion, so that all indices are constants.)
template <int kCount, int kSize>
__device__ __forceinline__ float spread_sums(float (&values)[kSize]) {
  if constexpr (kCount > 1) {
    constexpr int kOffset = kWarpSize / 2 * kCount / kSize;
    const bool upper = (static_cast<int>(threadIdx.x) & kOffset) != 0;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const float sent = upper ? values[i] : values[i + kCount / 2];
      const float kept = upper ? values[i + kCount / 2] : values[i];
      values[i] = kept + __shfl_xor_sync(kFullWarp, sent, kOffset);
    }
    return spread_sums<kCount / 2>(values);
  } else {
#pragma unroll
    for (int offset = kWarpSize / 2 / kSize; offset > 0; offset /= 2)
      values[0] += __shfl_xor_sync(kFullWarp, values[0], offset);
    return values[0];
  }
}

// The weights do not depend on earlier kernels: while those run, they come closer.
template <int kFeatures>
__device__ __forceinline__ void prefetch_features(const WeightProduct& p, int64_t first, int lane) {
  constexpr int kLine = 128;
  const auto* weight = static_cast<const char*>(p.weight);
  const int64_t end = min(first + kFeatures, p.n) * p.pitch;
  for (int64_t at = first * p.pitch + lane * kLine; at < end; at += kLine * kWarpSize)
    prefetch(weight + at);
}

// What a warp does: kRows rows, kFeatures features, kAhead pieces of each feature under way in a
// lane. kWhole: rows of x and of the weight begin at multiples of 16 bytes, and k is a multiple of
// a piece. None of these changes what is added, nor in which order.
template <int kRows_, int kFeatures_, int kAhead_, bool kWhole_>
struct LaneShape {
  static constexpr int kRows = kRows_, kFeatures = kFeatures_, kAhead = kAhead_;
  static constexpr bool kWhole = kWhole_;
};

// What is so many pieces of 16 bytes behind: one instruction. (A compiler would add what it can
// before a loop, and keep pointers.)
template <class T>
__device__ __forceinline__ const T* pieces_behind(const T* at, uint32_t pieces) {
#if defined(__CUDA_ARCH__)
  const T* to;
  asm("mad.wide.u32 %0, %1, 16, %2;" : "=l"(to) : "r"(pieces), "l"(at));
  __builtin_assume(__isGlobal(to));
  return to;
#else
  return at + int64_t{pieces} * kVector<T>;
#endif
}

// A lane's sums over its pieces. kSparing: in fewer registers, for a kernel that goes on behind.
template <class T, class Kind, class S, bool kSparing = false>
struct LaneSums {
  using Piece = Stored<Kind, S::kWhole>;
  static constexpr int kStep = Kind::kElements * kWarpSize;  // from a lane's piece to its next
  // Many rows of x: how far they are behind the first, in pieces of 16 bytes. (Pointers would take
  // twice the registers.)
  static constexpr bool kPieces = kSparing && S::kWhole && S::kRows > 4;
  using Row = std::conditional_t<kPieces, uint32_t, const T*>;
  const WeightProduct& p;
  Row x[S::kRows];
  const char* w[S::kFeatures];
  int64_t first;  // feature
  uint4 next[S::kAhead][S::kFeatures];
  float sums[S::kRows * S::kFeatures] = {};

  // row_of(r): the row of x that is row r's.
  template <class RowOf>
  __device__ __forceinline__ LaneSums(const WeightProduct& product, int64_t first_feature,
                                      const RowOf& row_of)
      : p(product), first(first_feature) {
#pragma unroll
    for (int r = 0; r < S::kRows; ++r) {
      if constexpr (kPieces)
        x[r] = static_cast<uint32_t>(row_of(r)) * static_cast<uint32_t>(p.x_stride / kVector<T>);
      else
        x[r] = static_cast<const T*>(p.x) + row_of(r) * p.x_stride;
    }
#pragma unroll
    for (int f = 0; f < S::kFeatures; ++f)
      w[f] = static_cast<const char*>(p.weight) + min(first + f, p.n - 1) * p.pitch;
  }

  __device__ __forceinline__ void load(uint4 (&to)[S::kFeatures], int64_t at) {
    if (at >= p.k) return;
#pragma unroll
    for (int f = 0; f < S::kFeatures; ++f) to[f] = Piece::load(w[f], at, p.k);
  }

  // The pieces `raw` at `at`; those that take their place are sent for first.
  __device__ __forceinline__ void add(uint4 (&pieces)[S::kFeatures], int64_t at) {
    uint4 raw[S::kFeatures];
    GroupScale groups[S::kFeatures] = {};
#pragma unroll
    for (int f = 0; f < S::kFeatures; ++f) {
      raw[f] = pieces[f];
      if constexpr (Kind::kGroups)
        groups[f] = group_scale(
            __ldg(p.group_scales + min(first + f, p.n - 1) * ((p.k + 127) / 128) + at / 128));
    }
    load(pieces, at + S::kAhead * kStep);
#pragma unroll
    for (int part = 0; part < Kind::kElements / Kind::kPart; ++part) {
      float weights[S::kFeatures][Kind::kPart];
#pragma unroll
      for (int f = 0; f < S::kFeatures; ++f) Kind::widen(raw[f], part, groups[f], weights[f]);
      const int64_t from = at + part * Kind::kPart;
#pragma unroll
      for (int r = 0; r < S::kRows; ++r) {
        float values[Kind::kPart];
        if constexpr (kPieces)
          load_part<true>(pieces_behind(static_cast<const T*>(p.x) + from, x[r]), 0, values);
        else
          load_part<S::kWhole>(x[r] + from, p.k - from, values);
#pragma unroll
        for (int f = 0; f < S::kFeatures; ++f)
#pragma unroll
          for (int i = 0; i < Kind::kPart; ++i)
            sums[r * S::kFeatures + f] = fmaf(weights[f][i], values[i], sums[r * S::kFeatures + f]);
      }
    }
  }

  __device__ __forceinline__ void add_all() {
    auto at = static_cast<int64_t>(threadIdx.x % kWarpSize) * Kind::kElements;
    if constexpr (kSparing) at = made_anew(static_cast<int>(at));
#pragma unroll
    for (int n = 0; n < S::kAhead; ++n) load(next[n], at + n * kStep);
    // Rounds that all lanes have whole, without a question; then what is left.
    using Count = std::conditional_t<kSparing, uint32_t, int64_t>;
    const Count rounds = static_cast<Count>(p.k) / (S::kAhead * kStep);
#pragma unroll 1
    for (Count round = 0; round < rounds; ++round, at += S::kAhead * kStep)
#pragma unroll
      for (int n = 0; n < S::kAhead; ++n) add(next[n], at + n * kStep);
#pragma unroll
    for (int n = 0; n < S::kAhead; ++n)
      if (at + n * kStep < p.k) add(next[n], at + n * kStep);
  }
};

}  // namespace tandem::cuda
