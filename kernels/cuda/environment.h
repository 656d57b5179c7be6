// Environment variables that choose and launch kernels (docs/gpu.md). They override estimates that
// no device has confirmed yet.
#pragma once

#include <cstdint>
#include <optional>

namespace tandem::cuda {

// The most rows of a step whose kernels are launched before the earlier ones have ended.
// TANDEM_DEPENDENT_LAUNCH: 0, none; 1, any number.
int64_t dependent_rows_wanted();
// The most greedy rows for which the head stores no logits. TANDEM_HEAD_BEST_ROWS: that number.
// Throws InputError unless it is from 0 to kMostBestTileRows.
int best_rows_wanted();

// The most rows that direct_tiles multiplies. TANDEM_DIRECT_ROWS: that number, from 0 to
// kMostDirectRows, else InputError.
std::optional<int> direct_rows_wanted();
// The most rows that cluster_tiles multiplies, from 9 on. TANDEM_CLUSTER_ROWS: that number, from 0
// to kMostClusterRows, else InputError. 0: no device has shown its gain yet.
int cluster_rows_wanted();
// The most rows of a step whose decoder is one kernel. TANDEM_STEP_KERNEL_ROWS: that number, from 0
// to 8, else InputError. 0: no device has shown its gain yet.
int step_rows_wanted();

// The least rows of a product that wide_tiles multiplies. TANDEM_WIDE_TILES_ROWS: that number, or 0
// for none, up to kMostWideRows, else InputError. None: no device has shown its gain yet.
int64_t wide_rows_wanted();

}  // namespace tandem::cuda
