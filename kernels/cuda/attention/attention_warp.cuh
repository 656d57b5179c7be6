// A softmax over keys that come one after the other, by a warp: its lanes are elements of the head.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma.cuh"

namespace tandem::cuda {

// Each lane has its elements of `q` and `sum`, every kWarpSize-th from its own number on.
struct WarpHead {
  float* q;    // of the warp, scaled
  float* sum;  // of values
  int32_t head_dim;
  float top = -INFINITY, weights = 0.0f;

  template <class T>
  __device__ void begin(const T* query, float scale) {
    for (int32_t d = lane(); d < head_dim; d += kWarpSize) {
      q[d] = to_float(query[d]) * scale;
      sum[d] = 0.0f;
    }
  }
  // key(d), value(d): an element.
  template <class Key, class Value>
  __device__ void add(const Key& key, const Value& value, float bias) {
    float score = 0.0f;
    for (int32_t d = lane(); d < head_dim; d += kWarpSize) score = fmaf(q[d], key(d), score);
    score = warp_sum(score) + bias;
    const float most = fmaxf(top, score), before = expf(top - most), weight = expf(score - most);
    for (int32_t d = lane(); d < head_dim; d += kWarpSize)
      sum[d] = fmaf(weight, value(d), sum[d] * before);
    weights = weights * before + weight;
    top = most;
  }
  template <class T>
  __device__ void end(T* out) const {
    for (int32_t d = lane(); d < head_dim; d += kWarpSize) out[d] = from_float<T>(sum[d] / weights);
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
};

}  // namespace tandem::cuda
