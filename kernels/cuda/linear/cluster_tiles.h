// Products of any number of rows with 16-bit weights on tensor cores, a part of k for each block of
// a cluster (cluster_tiles.cu). The bits of a row do not depend on the other rows, nor on their
// number.
#pragma once

#include "kernels/cuda/linear/weight_products.h"

namespace tandem::cuda {

// The most rows for which TANDEM_CLUSTER_ROWS may ask for it; it takes more.
constexpr int64_t kMostClusterRows = 128;

// Parts of k, 1 to 8: as many as give the multiprocessors of a large GPU a block or two, of two
// steps at least. 1 below compute capability 9.0, which has no clusters.
int cluster_parts(int64_t n, int64_t k, int capability);

// Whether it takes this product: 16-bit types, k % 8 = 0, rows at multiples of 16 bytes, from
// compute capability 8.0 on.
bool takes_cluster_tiles(const WeightProduct& p, int capability);
void cluster_tiles(const WeightProduct& p, int capability, LaunchStream stream);

}  // namespace tandem::cuda
