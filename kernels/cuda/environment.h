// Environment variables that choose and launch kernels (docs/gpu.md). They override estimates that
// no device has confirmed yet.
#pragma once

namespace tandem::cuda {

// TANDEM_DEPENDENT_LAUNCH: 1.
bool dependent_launches_wanted();
// TANDEM_BULK_COPIES: 1.
bool bulk_copies_wanted();
// The most rows of products that compute the norm of their input. TANDEM_FUSED_NORMS: 0, none; 1,
// as many as norm_tiles takes.
int normed_rows_wanted();
// The most greedy rows for which the head stores no logits. TANDEM_HEAD_BEST_ROWS: that number.
// Throws InputError unless it is from 0 to kMostBestTileRows.
int best_rows_wanted();

}  // namespace tandem::cuda
