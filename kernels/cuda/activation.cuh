// The activation functions on a device.
#pragma once

#include "kernels/core/activation.h"
#include "kernels/cuda/launch.cuh"

namespace tandem::cuda {

__device__ __forceinline__ float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kRelu: return x < 0.0f ? 0.0f : x;  // a NaN stays
    case Activation::kGelu: return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    case Activation::kGeluTanh:
      return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case Activation::kSilu: return x / (1.0f + expf(-x));
    case Activation::kQuickGelu: return x / (1.0f + expf(-1.702f * x));
    case Activation::kTanh: return tanhf(x);
    case Activation::kSigmoid: return 1.0f / (1.0f + expf(-x));
    case Activation::kNone: break;
  }
  return x;
}

}  // namespace tandem::cuda
