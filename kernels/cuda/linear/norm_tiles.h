// A norm and the product that reads it in one launch (norm_tiles.cu), for up to
// CudaBackend::most_normed_rows.
#pragma once

#include <cstddef>

#include "kernels/cuda/linear/weight_products.h"

namespace tandem::cuda {

struct NormProduct {
  WeightProduct product;  // of the norm's rows, which it gets from here: its own `x` is not read
  const void* x;          // [rows, k] of the product's type, as all of these
  int64_t x_stride;
  const void* residual;  // added to x, or null
  int64_t residual_stride;
  const float *weight, *bias;  // [k]; bias: null if `rms`
  float eps;
  bool rms;
  void* out;  // the norm's rows, none of the inputs
  int64_t out_stride;
  void* sum;  // x + residual, rounded; or null
  int64_t sum_stride;
};

constexpr int kMostNormTileRows = 128;

// Tokens of a block with `shared` bytes of shared memory; 0: norm_tiles does not take this. It
// takes 9 to 128 rows, 16-bit types, up to 2048 features, rows at multiples of 16 bytes.
int norm_tile_tokens(const NormProduct& p, int capability, size_t shared);
void norm_tiles(const NormProduct& p, int tokens, LaunchStream stream);

}  // namespace tandem::cuda
