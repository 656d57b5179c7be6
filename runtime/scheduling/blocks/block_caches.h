// What the caches have of the device's blocks: cross tables by source, full blocks of decoder
// tokens by prefix (docs/scheduling.md §8). A block is marked as cached in the device pool exactly
// while one of the caches holds it.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/scheduling/blocks/block_table.h"
#include "runtime/scheduling/blocks/cross_cache.h"
#include "runtime/scheduling/blocks/prefix_cache.h"
#include "runtime/scheduling/sequence.h"

namespace tandem {

// Which caches there are.
struct CacheOptions {
  bool encoder = false;  // cross tables
  bool prefix = false;   // full blocks of decoder tokens
};

// Since the beginning.
struct CacheStats {
  int64_t encoder_queries = 0, encoder_hits = 0;  // groups that came in
  int64_t encoder_hit_tokens = 0;                 // encoder tokens that were not computed
  int64_t prefix_queries = 0, prefix_hits = 0;    // decoder tokens of sequences that came in
  int64_t evicted_blocks = 0;
};

class BlockCaches {
 public:
  // `device` must outlive it.
  BlockCaches(CacheOptions options, int block_size, BlockPool& device);

  // The cross table of the group's source; null if it is not there.
  const Blocks* find_cross(const SequenceGroup& group) const;
  // The longest chain of blocks that hold the sequence's first tokens, but for the last one.
  BlockTable find_prefix(const SequenceGroup& group, const Sequence& seq) const;
  // The blocks hold what the group's encoder gives. Its source is not there yet.
  void insert_cross(const SequenceGroup& group, const Blocks& blocks);
  // The sequence's full blocks of computed and known tokens. `table`: its own, on the device.
  void insert_full_blocks(const SequenceGroup& group, const Sequence& seq, BlockTable& table);
  // A group came in, and found this: computed_tokens by place in group.seqs().
  void count(const SequenceGroup& group, bool encoder_found,
             const std::vector<int>& computed_tokens);
  // The block, which is idle, is unused from now on; so is the rest of its cross table.
  void evict(int32_t block);
  void clear();

  const CacheStats& stats() const { return stats_; }
  bool holds_cross(int32_t block) const { return cross_.holds(block); }
  // Both caches are sound, and hold the blocks that the pool marks, each once.
  void check_integrity() const;

 private:
  CacheOptions options_;
  int block_size_;
  BlockPool& device_;
  CrossCache cross_;
  PrefixCache prefix_;
  CacheStats stats_;
};

}  // namespace tandem
