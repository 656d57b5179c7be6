// What a group that is to start finds in the caches, and the free blocks that it needs besides.
#pragma once

#include <vector>

#include "runtime/scheduling/blocks/block_pools.h"
#include "runtime/scheduling/blocks/block_table.h"
#include "runtime/scheduling/sequence.h"

namespace tandem {

struct StartPlan {
  const Blocks* cross = nullptr;  // null: not found. The cache's
  std::vector<BlockTable> self;   // what was found, by place in group.seqs()
  int free_blocks = 0;            // that it takes, found idle ones included
  // Forks that wait get a last block each; the others they share with sequence 0.
  bool forks_own_last_block = false;
};

// Takes and counts nothing.
StartPlan plan_start(const BlockPools& pools, const SequenceGroup& group);

}  // namespace tandem
