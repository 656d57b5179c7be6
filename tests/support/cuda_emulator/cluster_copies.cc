// Arrivals and copies from one block of a cluster to another: each is told to the other block's OS
// thread, which does it when its threads next make way.
#include <cuda_emulated_cluster.h>

#include "block.h"

namespace cuda_emulator {

void Block::do_posted() {
  if (cluster_)
    for (const Cluster::Work& work : cluster_->take(rank_)) work(*this);
}

// The place of another block; what is done there must have a barrier of the cluster behind it.
void* Block::place_to_change(const void* own, size_t bytes, unsigned rank) {
  return const_cast<unsigned char*>(in_block_of_cluster(own, bytes, rank));
}

void Block::arrive_in_block(const uint64_t* at, unsigned rank) {
  if (cluster_ && rank == rank_) return bulk_copies_.arrive(at, 0);
  const auto* there = static_cast<const uint64_t*>(place_to_change(at, sizeof *at, rank));
  bulk_copies_.tell(rank);
  cluster_->post(rank, [there](Block& block) { block.bulk_copies().arrive_from_afar(there); });
}

void Block::copy_to_blocks(const BoxCopy& copy, unsigned blocks) {
  for (unsigned rank = 0; rank < blocks; ++rank) {
    if (!cluster_ || rank == rank_) {
      bulk_copies_.copy_box(copy);
      continue;
    }
    BoxCopy there = copy;
    const size_t bytes = static_cast<size_t>(copy.matrix.box_rows) * 128;
    there.tile = place_to_change(copy.tile, bytes, rank);
    there.barrier =
        static_cast<const uint64_t*>(place_to_change(copy.barrier, sizeof *copy.barrier, rank));
    cluster_->post(rank, [there, from = rank_](Block& block) {
      block.bulk_copies().copy_box(there, static_cast<int>(from));
    });
  }
}

void arrive_in_block(const uint64_t* at, unsigned rank) {
  here("mbarrier.arrive").arrive_in_block(at, rank);
}
void tensor_copy_to_blocks(void* tile, const TensorMatrix& matrix, int row, int column,
                           const uint64_t* at, unsigned blocks) {
  here("cp.async.bulk.tensor").copy_to_blocks({tile, matrix, row, column, at}, blocks);
}

}  // namespace cuda_emulator
