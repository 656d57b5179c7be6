// One table: the blocks of a sequence, or of a source, in order.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/scheduling/blocks/block_pool.h"
#include "runtime/scheduling/blocks/prefix_cache.h"

namespace tandem {

// A block that must be copied, and where to.
using BlockPairs = std::vector<std::pair<int32_t, int32_t>>;

struct BlockTable {
  Blocks blocks;
  bool on_host = false;
  int num_cached = 0;  // blocks at the front of a self table whose chain is known
  PrefixCache::Chain chain = PrefixCache::kBegin;  // up to their end
};

}  // namespace tandem
