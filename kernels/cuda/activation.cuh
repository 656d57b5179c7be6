// The activation functions on a device, and the soft cap of logits.
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
    case Activation::kClippedGelu: {
      const float y = 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
      return y < -kGeluClip ? -kGeluClip : y > kGeluClip ? kGeluClip : y;
    }
    case Activation::kHardSwish: return x * fminf(fmaxf(x + 3.0f, 0.0f), 6.0f) / 6.0f;
    case Activation::kLaplace:
      return 0.5f * erfcf((kLaplaceMean - x) / kLaplaceDeviation * 0.70710678118654752f);
    case Activation::kLeakyRelu: return x < 0.0f ? kLeak * x : x;
    case Activation::kMish: {
      const float e = expf(fminf(x, 30.0f)), n = e * (e + 2.0f);
      return x * (n / (n + 2.0f));
    }
    case Activation::kRelu2: return x < 0.0f ? 0.0f : x * x;
    case Activation::kRelu6: return x < 0.0f ? 0.0f : x > 6.0f ? 6.0f : x;
    case Activation::kSqrtSoftplus: return sqrtf(log1pf(expf(-fabsf(x))) + (x < 0.0f ? 0.0f : x));
    case Activation::kNone: break;
  }
  return x;
}

__device__ __forceinline__ float soft_capped(float x, float cap) { return cap * tanhf(x / cap); }

}  // namespace tandem::cuda
