// What is done with a sum of products: scale, bias, activation, one rounding.
#pragma once

#include "kernels/cuda/activation.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/linear/weight_products.h"

namespace tandem::cuda {

// T: of the activations; the output's and the bias's type is that or f32.
template <class T>
__device__ __forceinline__ void finish(const Epilogue& e, int64_t row, int64_t feature, float sum) {
  const bool f32 = e.out_type == DType::kF32;
  float scale = 1.0f, bias = 0.0f;
  if (e.scales != nullptr) scale = e.scales[feature];
  if (e.row_scales != nullptr) scale = __fmul_rn(scale, e.row_scales[row]);
  if (e.bias != nullptr)
    bias = f32 ? static_cast<const float*>(e.bias)[feature]
               : to_float(static_cast<const T*>(e.bias)[feature]);
  const float value = activate(e.activation, fmaf(sum, scale, bias));
  const int64_t at = row * e.out_stride + feature;
  if (f32) {
    static_cast<float*>(e.out)[at] = value;
  } else {
    static_cast<T*>(e.out)[at] = from_float<T>(value);
  }
}

}  // namespace tandem::cuda
