// What the environment says of how kernels are chosen and launched (docs/gpu.md), where estimates
// wait for a device to be overruled.
#pragma once

namespace tandem::cuda {

// TANDEM_DEPENDENT_LAUNCH: 1.
bool dependent_launches_wanted();
// TANDEM_BULK_COPIES: 1.
bool bulk_copies_wanted();
// Rows up to which products make the norms that they read. TANDEM_FUSED_NORMS: 0, none; 1, as many
// as norm_tiles takes.
int normed_rows_wanted();
// Greedy rows up to which the head leaves no logits. TANDEM_HEAD_BEST_ROWS: that number. Throws
// InputError where it is none from 0 to kMostBestTileRows.
int best_rows_wanted();

}  // namespace tandem::cuda
