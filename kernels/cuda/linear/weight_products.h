// Products with weights by kernels of ours (weight_path.h chooses), and the epilogue of cuBLASLt's
// products with quantised weights. out = activation(scale * (W x) + bias), rounded once.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/core/activation.h"
#include "kernels/core/quantization.h"
#include "kernels/core/types.h"
#include "kernels/cuda/host/launch_stream.h"

namespace tandem::cuda {

// The work on a finished sum.
struct Epilogue {
  const float* scales = nullptr;      // [n], or null
  const float* row_scales = nullptr;  // [rows], or null
  const void* bias = nullptr;         // [n] of the output's type, or null
  Activation activation = Activation::kNone;
  void* out = nullptr;  // [rows, n]
  int64_t out_stride = 0;
  DType out_type = DType::kF32;
};

struct WeightProduct {
  const void* x;  // [rows, k] of `type`, strided
  int64_t x_stride, rows, k, n;
  DType type;
  const void* weight;
  int64_t pitch;  // bytes of a feature
  Quantization quantization;
  const float* group_scales;  // of int4
  Epilogue epilogue;
};

// Whether rows begin at multiples of 16 bytes.
inline bool aligned_16(const void* data, int64_t row_bytes) {
  return (reinterpret_cast<uintptr_t>(data) | static_cast<uintptr_t>(row_bytes)) % 16 == 0;
}

// Any shapes and types.
void weight_rows(const WeightProduct& p, LaunchStream stream);

// REQUIRES: quantised weights, 16-bit activations whose rows begin at multiples of 16 bytes, k % 8
// = 0, compute capability 8.0. `sums`: [tile_parts(n, pitch), rows, n] f32 if there are several
// parts.
void weight_tiles(const WeightProduct& p, float* sums, LaunchStream stream);

// out from sums [parts, rows, n] f32, added in their order.
void finish_product(const float* sums, int parts, int64_t rows, int64_t n, const Epilogue& epilogue,
                    LaunchStream stream);

// The weight [n, k] in `type`: q for int8 and fp8 (exact), scale * (q - zero) for int4.
void widen_weight(const WeightProduct& p, void* out, LaunchStream stream);

// Rounds rows of x to e4m3 [rows, k] and scales [rows]. A row with a NaN or an infinity has the
// scale NaN.
void quantize_rows(const WeightProduct& p, void* out, float* scales, LaunchStream stream);

}  // namespace tandem::cuda
