// ops::Rotary in kernels.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/ops.h"

namespace tandem::cuda {

// Of one token's heads after the other. Products and the sum are rounded one by one.
struct Turn {
  const float* angles = nullptr;  // [T, size]: cosines, then sines
  int64_t stride = 0;
  int size = 0;  // of a head: what turns
  bool interleaved = false;

  Turn() = default;
  explicit Turn(const ops::Rotary& rotary)
      : angles(rotary.angles.data<float>()),
        stride(rotary.angles.row_stride()),
        size(static_cast<int>(rotary.angles.dim(1))),
        interleaved(rotary.interleaved) {}

  // The elements of a head's pair i.
  __device__ int first(int i) const { return interleaved ? 2 * i : i; }
  __device__ int second(int i) const { return interleaved ? 2 * i + 1 : i + size / 2; }
  // What a pair (a, b) becomes.
  __device__ void pair(int64_t token, int i, float& a, float& b) const {
    const float* row = angles + token * stride;
    const float cosine = row[i], sine = row[size / 2 + i];
    const float turned = __fsub_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine));
    b = __fadd_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine));
    a = turned;
  }
  // Element d of a head that becomes so.
  template <class T>
  __device__ float element(const T* head, int64_t token, int d) const {
    if (d >= size) return to_float(head[d]);
    const int half = size / 2;
    const int i = interleaved ? d / 2 : d < half ? d : d - half;
    float a = to_float(head[first(i)]), b = to_float(head[second(i)]);
    pair(token, i, a, b);
    return d == first(i) ? a : b;
  }
};

}  // namespace tandem::cuda
