// Products of 9 to 128 rows with 16-bit weights on tensor cores, without shared memory for their
// operands (direct_tiles.cu). The bits of a row do not depend on the other rows, nor on their
// number.
#pragma once

#include "kernels/cuda/linear/weight_products.h"

namespace tandem::cuda {

constexpr int64_t kMostDirectRows = 128;

// The most rows for which it is ahead of cuBLASLt, measured on an H100 (docs/gpu.md). A vocabulary
// is multiplied here at any number of rows that it takes. Others are at a few rows: narrow
// products, and those with an activation that cuBLASLt leaves to another kernel.
constexpr int64_t default_direct_rows(const WeightProduct& p) {
  constexpr int64_t kVocabulary = 16384, kNarrow = 2048;
  if (p.n >= kVocabulary) return kMostDirectRows;
  const Activation of = p.epilogue.activation;
  const bool own_kernel = of != Activation::kNone && of != Activation::kRelu;
  return p.n <= kNarrow || own_kernel ? 32 : 0;
}

// Whether it takes this product: 16-bit types, k % 8 = 0, rows at multiples of 16 bytes, from
// compute capability 8.0 on. Any number of rows.
bool takes_direct_tiles(const WeightProduct& p, int capability);
void direct_tiles(const WeightProduct& p, LaunchStream stream);

}  // namespace tandem::cuda
