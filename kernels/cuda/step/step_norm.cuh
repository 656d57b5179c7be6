// Norms of a step's rows, a warp for each: layer_norm's bits (kernels/cuda/rows.cu).
//
// There 128 threads have a row. Here a lane does what four of them did, and adds up as they do.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma.cuh"

namespace tandem::cuda::step {

// What layer_norm's threads take at a time, and how many warps they are.
constexpr int kPiece = 8, kNormWarps = 4;
constexpr int kNormStep = kNormWarps * kWarpSize * kPiece;

template <class T>
__device__ __forceinline__ void load_piece(const T* from, float (&out)[kPiece]) {
#pragma unroll
  for (int i = 0; i < kPiece; i += kVector<T>) {
    const Vector<T> v = *reinterpret_cast<const Vector<T>*>(from + i);
#pragma unroll
    for (int j = 0; j < kVector<T>; ++j) out[i + j] = to_float(v.values[j]);
  }
}
template <class T>
__device__ __forceinline__ void store_piece(const float (&values)[kPiece], T* to) {
#pragma unroll
  for (int i = 0; i < kPiece; i += kVector<T>) {
    Vector<T> v;
#pragma unroll
    for (int j = 0; j < kVector<T>; ++j) v.values[j] = from_float<T>(values[i + j]);
    *reinterpret_cast<Vector<T>*>(to + i) = v;
  }
}

struct RowNorm {
  const float *weight, *bias;  // no bias: RMS
  float eps;
};

// Of x [size], a multiple of kPiece, plus `update` unless that is null. h: [size] of shared memory.
// `sum`: x + update; may be x, or null. `out` may be x.
template <class T>
__device__ __forceinline__ void norm_row(const RowNorm& norm, const T* x, const T* update, int size,
                                         float* h, T* sum, T* out) {
  const bool rms = norm.bias == nullptr;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  // A piece of each of the four threads; body(w, at): where it begins.
  const auto for_pieces = [&](int step, const auto& body) {
#pragma unroll
    for (int w = 0; w < kNormWarps; ++w) {
      const int at = step + (w * kWarpSize + lane) * kPiece;
      if (at < size) body(w, at);
    }
  };
  // The four threads' values over the block.
  const auto total = [](const float(&of)[kNormWarps]) {
    return (warp_sum(of[0]) + warp_sum(of[2])) + (warp_sum(of[1]) + warp_sum(of[3]));
  };
  // All loads of a step go out together. The weights, for which there are no registers yet, come
  // closer.
  for (int at = lane * 32; at < size; at += kWarpSize * 32) {
    prefetch(norm.weight + at);
    if (!rms) prefetch(norm.bias + at);
  }
  float added[kNormWarps] = {}, squares[kNormWarps] = {};
#pragma unroll 1
  for (int step = 0; step < size; step += kNormStep) {
    float more[kNormWarps][kPiece] = {};
    if (update != nullptr)
      for_pieces(step, [&](int w, int at) { load_piece(update + at, more[w]); });
    for_pieces(step, [&](int w, int at) {
      float values[kPiece];
      load_piece(x + at, values);
#pragma unroll
      for (int i = 0; i < kPiece; ++i) {
        if (update != nullptr) values[i] += more[w][i];
        added[w] += values[i];
      }
      store_piece(values, h + at);
      if (sum != nullptr) store_piece(values, sum + at);
    });
  }
  const float mean = rms ? 0.0f : total(added) / static_cast<float>(size);
#pragma unroll 1
  for (int step = 0; step < size; step += kNormStep)
    for_pieces(step, [&](int w, int at) {
      float values[kPiece];
      load_piece(h + at, values);
#pragma unroll
      for (int i = 0; i < kPiece; ++i) {
        const float d = values[i] - mean;
        squares[w] = fmaf(d, d, squares[w]);
      }
    });
  const float variance = total(squares) / static_cast<float>(size);
  const float scale = 1.0f / sqrtf(variance + norm.eps);
#pragma unroll 1
  for (int step = 0; step < size; step += kNormStep) {
    for_pieces(step, [&](int w, int at) {
      float values[kPiece], weights[kPiece], biases[kPiece] = {};
      load_piece(norm.weight + at, weights);
      if (!rms) load_piece(norm.bias + at, biases);
      load_piece(h + at, values);
#pragma unroll
      for (int i = 0; i < kPiece; ++i)
        values[i] = fmaf((values[i] - mean) * scale, weights[i], biases[i]);
      store_piece(values, out + at);
    });
  }
}

}  // namespace tandem::cuda::step
