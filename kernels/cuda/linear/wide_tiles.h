// Products of many rows with 16-bit weights on Hopper's tensor cores, with an activation that
// cuBLASLt does not have behind the sum (wide_tiles.cu). The bits of a row do not depend on the
// other rows, nor on their number.
#pragma once

#include "kernels/cuda/linear/weight_products.h"

namespace tandem::cuda {

// The largest number of rows that TANDEM_WIDE_TILES_ROWS may say; it takes more, and fewer.
constexpr int64_t kMostWideRows = int64_t{1} << 20;

// Whether it takes this product: 16-bit types, no scales, an activation but ReLU, k % 8 = 0, rows
// of x and of the weight at multiples of 16 bytes, compute capability 9.x. Any number of rows.
bool takes_wide_tiles(const WeightProduct& p, int capability);
// False, and nothing is done: this build has no code for it (sm_90 and not sm_90a), or the driver
// does not describe the operands. REQUIRES: takes_wide_tiles.
bool wide_tiles(const WeightProduct& p, int multiprocessors, LaunchStream stream);

}  // namespace tandem::cuda
