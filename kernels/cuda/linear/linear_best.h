// The head of greedy rows without logits (ops::linear_best): parameters of its kernels, and the
// most rows of those on tensor cores.
#pragma once

#include <cstddef>

#include "kernels/core/context.h"
#include "kernels/cuda/linear/weight_products.h"

namespace tandem::cuda {

// Destination of a row's answer.
struct BestAnswer {
  float* log_sums;
  int32_t* ids;
  float* values;
  int32_t* best;     // or null
  int32_t first_id;  // what ids begin at
};

struct BestProduct {
  WeightProduct product;  // `rows` of them; x is addressed by x_rows
  const int32_t* x_rows;
  BestAnswer answer;
  float soft_cap;  // of the logits; 0: none
};

constexpr int kMostBestTileRows = 128;

// The most rows of k features that best_tiles takes with `shared` bytes of shared memory for a
// block; 0: none. 16-bit types, k % 8 = 0, from compute capability 8.0 on.
int best_tile_rows(DType type, int64_t k, int capability, size_t shared);
// REQUIRES: rows of x and of the weight begin at multiples of 16 bytes.
void best_tiles(Context& ctx, const BestProduct& b);

}  // namespace tandem::cuda
