// Which blocks of the two pools (device, host) belong to whom. Blocks are reference-counted: forked
// sequences share them until one writes (copy on write). Decisions only; nothing is copied here.
// The contract, with the equations of free blocks: docs/design/scheduling.md §3 and §8.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/scheduling/blocks/block_tables.h"
#include "runtime/scheduling/sequence.h"

namespace tandem {

enum class AllocStatus : uint8_t {
  kOk,
  kLater,  // not enough free blocks now
  kNever,  // more than the whole pool
};

class BlockManager {
 public:
  // watermark: the share of device blocks kept free when groups come in (can_allocate,
  // can_swap_in). A pool that is wholly free is given out whole.
  BlockManager(int block_size, int num_device_blocks, int num_host_blocks, double watermark = 0.01,
               CacheOptions caches = {});

  const BlockPool& device() const { return pools_.device(); }
  const BlockPool& host() const { return pools_.host(); }
  const CacheStats& cache_stats() const { return pools_.caches().stats(); }
  int blocks_for(int tokens) const { return pools_.blocks_for(tokens); }
  const BlockPools& pools() const { return pools_; }
  const BlockTables& tables() const { return tables_; }
  // For forks and the moves of beams, which need no free blocks.
  BlockTables& tables() { return tables_; }

  // The free blocks that the group needs to start: for its encoder sequence and its sequences'
  // tokens, less the cached blocks in use.
  int blocks_to_start(const SequenceGroup& group) const;
  AllocStatus can_allocate(const SequenceGroup& group) const;
  // One self table for each unfinished sequence, for all tokens it has now, and one cross table.
  // Beams that wait for their fork share sequence 0's table. If they are searched ahead, they share
  // only its full blocks, and each gets a last block of its own. Cached blocks are used. The cross
  // table is cached at once, if its encoder runs in the step that is being scheduled.
  struct Start {
    bool encoder_found = false;        // its keys and values are there
    std::vector<int> computed_tokens;  // found, by place in group.seqs()
  };
  Start allocate(const SequenceGroup& group, bool encoder_runs_now = true);
  // Caches the group's cross table, unless its source's is cached: its encoder has run.
  void cache_encoder(const SequenceGroup& group);
  bool finds_encoder(const SequenceGroup& group) const;
  // Caches the sequence's full blocks of computed and known tokens. For steps to come: the step
  // that computes them has been scheduled.
  void cache_full_blocks(const SequenceGroup& group, const Sequence& seq);

  // New blocks needed so that the sequence can hold `tokens` tokens, a copy on write included.
  int blocks_to_append(const Sequence& seq, int tokens) const;
  // The same for sequences that each get one token more, in this order. They may share blocks; the
  // last one that writes to a block keeps it.
  std::vector<int> blocks_to_append(const std::vector<const Sequence*>& seqs) const;
  // Makes the table cover `tokens` tokens, all from num_computed_tokens() on to be written. Where a
  // block that will be written is shared, it is replaced: returns (old, new) to be copied.
  BlockPairs append_slots(const Sequence& seq, int tokens);

  bool can_swap_out(const SequenceGroup& group) const;
  BlockPairs swap_out(const SequenceGroup& group);  // (device, host)
  AllocStatus can_swap_in(const SequenceGroup& group) const;
  BlockPairs swap_in(const SequenceGroup& group);  // (host, device)

  // No-ops without a table.
  void free(const Sequence& seq) { tables_.free_self(seq); }
  void free_all(const SequenceGroup& group);  // self tables, then the cross table
  void reset();

  // Tables, pools and caches agree: free + referenced = total in both pools.
  void check_integrity() const { tables_.check_integrity(); }

 private:
  void extend(BlockTable& table, int tokens);
  AllocStatus fits(int blocks) const;

  int watermark_blocks_;
  BlockPools pools_;
  BlockTables tables_;
};

}  // namespace tandem
