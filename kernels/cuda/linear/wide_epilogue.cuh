// What wide_tiles.cu does behind sums: bias, activation, one rounding, stores of 16 bytes.
#pragma once

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/linear/weight_products.h"
#include "kernels/cuda/mma.cuh"

namespace tandem::cuda::wide {

// The usual activations without branches: a warp has nobody to hide their latency but itself, so a
// lane's eight sums must go side by side. They differ from activate() by 3e-7 and by 3e-6 of the
// value at most.

// x Q(-x) with Q(t) = erfc(t / sqrt(2)) / 2 = 2^P(t) for t in [0, 6]; P is interpolated. (Behind 6
// the value stays below 6e-9 of the larger.)
__device__ __forceinline__ float smooth_gelu(float x) {
  constexpr float kMost = 6.0f;
  constexpr float kP[] = {-0.99999779f,   -1.1511773f,    -0.45881107f,  -0.053343728f,
                          7.9661403e-3f,  -6.6565041e-4f, -1.390597e-5f, 1.063646e-5f,
                          -1.1057789e-6f, 4.0704354e-8f};
  const float t = fminf(fabsf(x), kMost);
  float p = kP[9];
#pragma unroll
  for (int i = 8; i >= 0; --i) p = fmaf(p, t, kP[i]);
  return fmaf(-t, exp2_fast(p), x < 0.0f ? 0.0f : x);  // a NaN stays
}
// x / (1 + e^-z).
__device__ __forceinline__ float times_sigmoid(float x, float z) {
  return __fdividef(x, 1.0f + exp2_fast(-1.44269504f * z));
}

__host__ __device__ constexpr bool is_usual(Activation a) {
  return a == Activation::kGelu || a == Activation::kGeluTanh || a == Activation::kSilu ||
         a == Activation::kQuickGelu;
}

// Calls body(function), such that usual ones are chosen once and not for each sum.
template <bool kUsual, class Body>
__device__ __forceinline__ void with_function(Activation activation, const Body& body) {
  if constexpr (!kUsual) {
    body([=](float x) { return activate(activation, x); });
  } else if (activation == Activation::kGelu) {
    body([](float x) { return smooth_gelu(x); });
  } else if (activation == Activation::kGeluTanh) {
    body([](float x) {
      return times_sigmoid(x, 1.5957691216057308f * (x + 0.044715f * x * x * x));
    });
  } else if (activation == Activation::kSilu) {
    body([](float x) { return times_sigmoid(x, x); });
  } else {
    body([](float x) { return times_sigmoid(x, 1.702f * x); });
  }
}

// Eight neighbouring features of a lane: what follows their sums.
template <class T>
class Finisher {
 public:
  static constexpr int kCount = 8;
  __device__ __forceinline__ Finisher(const Epilogue& e, int64_t feature, int64_t n)
      : e_(e), feature_(feature), count_(static_cast<int>(min(n - feature, int64_t{kCount}))) {
    const bool f32 = e.out_type == DType::kF32;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      bias_[i] = 0.0f;
      if (e.bias != nullptr && i < count_)
        bias_[i] = f32 ? static_cast<const float*>(e.bias)[feature + i]
                       : to_float(static_cast<const T*>(e.bias)[feature + i]);
    }
    const uint64_t pitch = static_cast<uint64_t>(e.out_stride) * (f32 ? sizeof(float) : sizeof(T));
    whole_ = count_ == kCount && (reinterpret_cast<uintptr_t>(e.out) | pitch) % 16 == 0;
  }

  template <class Function>
  __device__ __forceinline__ void operator()(const Function& function, int64_t row, float4 low,
                                             float4 high) const {
    const float sums[kCount] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    float values[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = function(sums[i] + bias_[i]);
    const int64_t at = row * e_.out_stride + feature_;
    if (e_.out_type == DType::kF32) {
      store(static_cast<float*>(e_.out) + at, values);
    } else {
      store(static_cast<T*>(e_.out) + at, values);
    }
  }

 private:
  template <class Out>
  __device__ __forceinline__ void store(Out* to, const float (&values)[kCount]) const {
    constexpr int kAtOnce = kVector<Out>;
    if (whole_) {
#pragma unroll
      for (int first = 0; first < kCount; first += kAtOnce) {
        Vector<Out> v;
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) v.values[i] = from_float<Out>(values[first + i]);
        *reinterpret_cast<Vector<Out>*>(to + first) = v;
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (i < count_) to[i] = from_float<Out>(values[i]);
  }

  const Epilogue& e_;
  int64_t feature_;
  int count_;   // there are so many, or fewer
  bool whole_;  // they fill aligned vectors
  float bias_[kCount];
};

}  // namespace tandem::cuda::wide
