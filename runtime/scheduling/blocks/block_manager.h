// Which blocks of the two pools (device, host) belong to whom. Blocks are reference-counted: forked
// sequences share them until one writes (copy on write). Decisions only; nothing is copied here.
//
// With |table| the number of blocks of a table, and seq_group_blocks = |cross table| + sum of the
// group's |self tables| (vLLM's infrastructure document; tests/runtime/scheduling/blocks/block_manager_test.cc):
//   allocate:   free_device -= seq_group_blocks
//   swap_out:   free_device += seq_group_blocks, free_host -= seq_group_blocks
//   swap_in:    the reverse
//   free:       free_(pool it is in) += |self table|
//   free_cross: free_(pool it is in) += |cross table|
//   reset:      everything is free
// (a block shared by k tables counts once; what others share is not given back).
//
// With caches, a group that comes in may find blocks that hold what it needs: the cross table of
// its source, and full blocks of its sequences. They are shared with whoever uses them; those that
// nobody uses are idle: free in every count, and evicted when there are no unused ones. The
// contract: docs/scheduling.md §8.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/scheduling/blocks/block_pool.h"
#include "runtime/scheduling/blocks/cross_cache.h"
#include "runtime/scheduling/blocks/prefix_cache.h"
#include "runtime/scheduling/sequence.h"

namespace tandem {

// A block that must be copied, and where to.
using BlockPairs = std::vector<std::pair<int32_t, int32_t>>;

enum class AllocStatus : uint8_t {
  kOk,
  kLater,  // not enough free blocks now
  kNever,  // more than the whole pool
};

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

class BlockManager {
 public:
  // watermark: the share of device blocks kept free when groups come in (can_allocate,
  // can_swap_in). A pool that is wholly free is given out whole, so that a group as large as the
  // pool can run alone.
  BlockManager(int block_size, int num_device_blocks, int num_host_blocks, double watermark = 0.01,
               CacheOptions caches = {});

  int block_size() const;
  int num_total_device_blocks() const;
  int num_total_host_blocks() const;
  int num_free_device_blocks() const;
  int num_free_host_blocks() const;
  // Device blocks of cross tables; shared ones count once. O(groups).
  int num_cross_device_blocks() const;
  int blocks_for(int tokens) const;  // ceil
  // The blocks that the group holds now, cross and self; shared ones count once.
  int num_blocks(const SequenceGroup& group) const;

  // The free blocks that the group needs to start: for its encoder sequence and the tokens its
  // sequences have, less what it finds that is in use.
  int blocks_to_start(const SequenceGroup& group) const;
  AllocStatus can_allocate(const SequenceGroup& group) const;
  // One self table for each unfinished sequence, for all tokens it has now, and one cross table.
  // Beams that wait for their fork share sequence 0's; only the full ones if they are searched
  // ahead, where each gets a last block of its own. What is in the caches is used; the cross table
  // is cached, so its encoder must run in the step that is being scheduled.
  struct Start {
    bool encoder_found = false;        // its keys and values are there
    std::vector<int> computed_tokens;  // found, by place in group.seqs()
  };
  Start allocate(const SequenceGroup& group);
  bool finds_encoder(const SequenceGroup& group) const;
  // Caches the sequence's full blocks of computed and known tokens. For steps to come: the step
  // that computes them has been scheduled.
  void cache_full_blocks(const SequenceGroup& group, const Sequence& seq);

  // New blocks needed so that the sequence can hold `tokens` tokens, a copy on write included.
  int blocks_to_append(const Sequence& seq, int tokens) const;
  bool can_append(const Sequence& seq, int tokens) const;
  // The same for sequences that get one token more each, in this order; they may share blocks
  // among them, and the last one that writes to a block keeps it.
  std::vector<int> blocks_to_append(const std::vector<const Sequence*>& seqs) const;
  // Makes the table cover `tokens` tokens, all from num_computed_tokens() on to be written. Where a
  // block that will be written is shared, it is replaced: returns (old, new) to be copied.
  BlockPairs append_slots(const Sequence& seq, int tokens);

  // The child shares the parent's blocks.
  void fork(const Sequence& parent, const Sequence& child);
  // Every sequence of the group goes on with the table that sequence parents[i] had.
  void adopt_tables(const SequenceGroup& group, const std::vector<int>& parents);
  // The same for the first `full` blocks alone; each keeps its own behind them. In either pool.
  // Such tables' blocks are not cached from then on.
  void adopt_full_blocks(const SequenceGroup& group, const std::vector<int>& parents, int full);

  bool can_swap_out(const SequenceGroup& group) const;
  BlockPairs swap_out(const SequenceGroup& group);  // (device, host)
  AllocStatus can_swap_in(const SequenceGroup& group) const;
  BlockPairs swap_in(const SequenceGroup& group);  // (host, device)

  void free(const Sequence& seq);               // no-op without a table
  void free_cross(const SequenceGroup& group);  // no-op without a table
  void reset();

  // The group must have the table.
  const Blocks& get_block_table(const Sequence& seq) const;
  const Blocks& get_cross_block_table(const SequenceGroup& group) const;
  bool has_block_table(const Sequence& seq) const;
  bool has_cross_block_table(const SequenceGroup& group) const;
  bool on_host(const SequenceGroup& group) const;

  const CacheStats& cache_stats() const { return stats_; }
  int num_idle_device_blocks() const { return device_.num_idle(); }
  bool is_cached(int32_t device_block) const { return device_.cached(device_block); }

  // The sequence's blocks from number `first` on are in no other table, and not cached.
  void check_owned(const Sequence& seq, int first) const;
  // free + referenced = total in both pools; reference counts equal the tables' mentions; caches
  // hold the blocks that are marked so.
  void check_integrity() const;

 private:
  struct Table {
    Blocks blocks;
    bool on_host = false;
    int num_cached = 0;  // blocks at the front of a self table whose chain is known
    PrefixCache::Chain chain = PrefixCache::kBegin;  // up to their end
  };
  // What a group would find in the caches.
  struct Found {
    const Blocks* cross = nullptr;
    std::vector<Table> self;  // by place in group.seqs()
    int free_blocks = 0;      // that it takes, found idle ones included
  };

  BlockPool& pool(const Table& table) { return table.on_host ? host_ : device_; }
  const BlockPool& pool(const Table& table) const { return table.on_host ? host_ : device_; }
  Found look_up(const SequenceGroup& group) const;
  Table find_prefix(const SequenceGroup& group, const Sequence& seq) const;
  SourceTokens source_of(const SequenceGroup& group) const {
    return {group.source_hash(), group.source_key()};
  }
  void count_queries(const SequenceGroup& group, const Start& start);
  int32_t take_block();  // of the device; evicts if it must
  void evict(int32_t block);
  void extend(Table& table, int tokens);
  bool own_last_block(const SequenceGroup& group) const;  // of forks that wait
  void release(const Table& table);
  void replace_tables(std::vector<std::pair<Table*, Table>> changed);
  const Table* find(const Sequence& seq) const;
  const Table* find_cross(const SequenceGroup& group) const;
  std::vector<Table*> tables_of(const SequenceGroup& group);
  std::vector<const Table*> tables_of(const SequenceGroup& group) const;
  AllocStatus fits(int blocks) const;
  BlockPairs move(const SequenceGroup& group, BlockPool& from, BlockPool& to);
  void check_caches() const;
  void check_table(const Table& table, std::vector<int32_t>& device,
                   std::vector<int32_t>& host) const;

  int block_size_;
  int watermark_blocks_;
  CacheOptions caches_;
  CrossCache cross_;
  PrefixCache prefix_;
  CacheStats stats_;
  BlockPool device_;
  BlockPool host_;
  std::unordered_map<int64_t, Table> self_tables_;       // by sequence id
  std::unordered_map<std::string, Table> cross_tables_;  // by request id
};

}  // namespace tandem
