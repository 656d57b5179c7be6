// Products of few rows: a warp reads some features' weights once, 16 bytes a lane, for all rows of
// the launch, and adds in f32.
//
// The order of a sum is the same for any number of rows: a lane adds its elements (every 32nd piece
// of 16 bytes of the weight) in their order, then lanes are added in a tree.
#include "kernels/cuda/epilogue.cuh"
#include "kernels/cuda/stored.cuh"
#include "kernels/cuda/weight_path.h"

namespace tandem::cuda {
namespace {

constexpr int kWarps = 2;

// Elements [at, at + kCount) of a row, `left` of which are there; zeros beyond.
template <int kCount, class T>
__device__ __forceinline__ void load_part(const T* from, int64_t left, bool aligned,
                                          float (&out)[kCount]) {
  if (aligned && left >= kCount) {
#pragma unroll
    for (int i = 0; i < kCount; i += kVector<T>) {
      const Vector<T> v = *reinterpret_cast<const Vector<T>*>(from + i);
#pragma unroll
      for (int j = 0; j < kVector<T>; ++j) out[i + j] = to_float(v.values[j]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) out[i] = i < left ? to_float(from[i]) : 0.0f;
  }
}

// The 16 bytes of a feature that begin with element `at`.
template <class Kind>
struct Stored {
  static __device__ __forceinline__ uint4 load(const void* row, int64_t at, int64_t, bool) {
    constexpr int kPieces = Kind::kElements;
    return __ldg(reinterpret_cast<const uint4*>(row) + at / kPieces);
  }
};
// Rows that are not padded, nor perhaps aligned.
template <class T>
struct Stored<Plain<T>> {
  static __device__ __forceinline__ uint4 load(const void* row, int64_t at, int64_t left,
                                               bool aligned) {
    const T* from = static_cast<const T*>(row) + at;
    if (aligned && left >= kVector<T>) return __ldg(reinterpret_cast<const uint4*>(from));
    union {
      uint4 raw;
      Vector<T> vector;
    } all{};
    all.raw = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < kVector<T>; ++i)
      if (i < left) all.vector.values[i] = from[i];
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

template <class T, class Kind, int kRows, int kFeatures>
__global__ void __launch_bounds__(kWarps* kWarpSize)
    weight_rows_kernel(const __grid_constant__ WeightProduct p, bool x_aligned, bool w_aligned,
                       bool early) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t first = (int64_t{blockIdx.x} * kWarps + warp) * kFeatures;
  if (early && blockIdx.y == 0) prefetch_features<kFeatures>(p, first, lane);
  wait_for_earlier_kernels();
  if (first >= p.n) return;
  const int64_t first_row = int64_t{blockIdx.y} * kRows;
  const T* x[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    x[r] = static_cast<const T*>(p.x) + min(first_row + r, p.rows - 1) * p.x_stride;
  const char* w[kFeatures];
#pragma unroll
  for (int f = 0; f < kFeatures; ++f)
    w[f] = static_cast<const char*>(p.weight) + min(first + f, p.n - 1) * p.pitch;

  float sums[kRows * kFeatures] = {};
  uint4 next[kFeatures];
  int64_t at = int64_t{lane} * Kind::kElements;
#pragma unroll
  for (int f = 0; f < kFeatures; ++f)
    if (at < p.k) next[f] = Stored<Kind>::load(w[f], at, p.k - at, w_aligned);
#pragma unroll 1
  for (; at < p.k; at += Kind::kElements * kWarpSize) {
    uint4 raw[kFeatures];
    GroupScale groups[kFeatures] = {};
    const int64_t ahead = at + Kind::kElements * kWarpSize;
#pragma unroll
    for (int f = 0; f < kFeatures; ++f) {
      raw[f] = next[f];
      if (ahead < p.k) next[f] = Stored<Kind>::load(w[f], ahead, p.k - ahead, w_aligned);
      if constexpr (Kind::kGroups)
        groups[f] = group_scale(
            __ldg(p.group_scales + min(first + f, p.n - 1) * ((p.k + 127) / 128) + at / 128));
    }
#pragma unroll
    for (int part = 0; part < Kind::kElements / Kind::kPart; ++part) {
      float weights[kFeatures][Kind::kPart];
#pragma unroll
      for (int f = 0; f < kFeatures; ++f) Kind::widen(raw[f], part, groups[f], weights[f]);
      const int64_t from = at + part * Kind::kPart;
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        float values[Kind::kPart];
        load_part(x[r] + from, p.k - from, x_aligned, values);
#pragma unroll
        for (int f = 0; f < kFeatures; ++f)
#pragma unroll
          for (int i = 0; i < Kind::kPart; ++i)
            sums[r * kFeatures + f] = fmaf(weights[f][i], values[i], sums[r * kFeatures + f]);
      }
    }
  }
  constexpr int kLanes = kWarpSize / (kRows * kFeatures);  // that have one sum
  const float sum = spread_sums<kRows * kFeatures>(sums);
  const int64_t row = first_row + lane / kLanes / kFeatures,
                feature = first + lane / kLanes % kFeatures;
  if (lane % kLanes == 0 && row < p.rows && feature < p.n) finish<T>(p.epilogue, row, feature, sum);
}

bool aligned_16(const void* data, int64_t row_bytes) {
  return (reinterpret_cast<uintptr_t>(data) | static_cast<uintptr_t>(row_bytes)) % 16 == 0;
}

template <class T, class Kind, int kRows, int kFeatures>
void launch(const WeightProduct& p, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(p.n, kWarps * kFeatures)),
                  static_cast<unsigned>(ceil_div(p.rows, kRows)));
  const int64_t x_bytes = p.x_stride * static_cast<int64_t>(sizeof(T));
  TANDEM_LAUNCH((weight_rows_kernel<T, Kind, kRows, kFeatures>), grid, kWarps * kWarpSize, 0,
                stream, p, aligned_16(p.x, x_bytes), aligned_16(p.weight, p.pitch),
                overlaps_launches());
}

template <class T, class Kind>
void launch_rows(const WeightProduct& p, cudaStream_t stream) {
  if (p.rows == 1) return launch<T, Kind, 1, 2>(p, stream);
  if (p.rows <= 4) return launch<T, Kind, 4, 2>(p, stream);
  launch<T, Kind, kMostRowsAtOnce, 4>(p, stream);
}

}  // namespace

void weight_rows(const WeightProduct& p, cudaStream_t stream) {
  with_type(p.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (p.quantization == Quantization::kNone) return launch_rows<T, Plain<T>>(p, stream);
    with_quantization(p.quantization,
                      [&](auto kind) { launch_rows<T, decltype(kind)>(p, stream); });
  });
  TANDEM_CUDA_CHECK(cudaGetLastError());
}

}  // namespace tandem::cuda
