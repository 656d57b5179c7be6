// The two pools of blocks, and the tables over them.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/scheduling/blocks/block_caches.h"
#include "runtime/scheduling/blocks/block_pool.h"
#include "runtime/scheduling/sequence.h"

namespace tandem {

// The device's and the host's blocks, and the caches that decide which free one of the device goes
// first.
class BlockPools {
 public:
  BlockPools(int block_size, int num_device_blocks, int num_host_blocks, CacheOptions caches);
  BlockPools(const BlockPools&) = delete;
  BlockPools& operator=(const BlockPools&) = delete;

  int block_size() const { return block_size_; }
  int blocks_for(int tokens) const;  // ceil

  BlockPool& device() { return device_; }
  const BlockPool& device() const { return device_; }
  const BlockPool& host() const { return host_; }
  BlockPool& of(const BlockTable& table) { return table.on_host ? host_ : device_; }
  const BlockPool& of(const BlockTable& table) const { return table.on_host ? host_ : device_; }
  BlockCaches& caches() { return caches_; }
  const BlockCaches& caches() const { return caches_; }

  // A free block, with one reference; of the device, an idle one is evicted if none is unused.
  int32_t take(bool on_host);
  // One reference more, or less, to each block of a table.
  void add_refs(const BlockTable& table);
  void release(const BlockTable& table);
  void reset();

  // `device` and `host`: how often tables mention each block.
  void check_integrity(const std::vector<int32_t>& device, const std::vector<int32_t>& host) const;

 private:
  int block_size_;
  BlockPool device_, host_;
  BlockCaches caches_;
};

// Who has which blocks: a self table for each sequence, a cross table for each group. A group's
// tables are all in the same pool. Every reference that a pool counts is one mention of the block
// in one table.
class BlockTables {
 public:
  // `pools` must outlive it.
  explicit BlockTables(BlockPools& pools) : pools_(pools) {}

  // The table must be there; null otherwise with find.
  const Blocks& self(const Sequence& seq) const;
  const Blocks& cross(const SequenceGroup& group) const;
  const BlockTable* find_self(const Sequence& seq) const;
  const BlockTable* find_cross(const SequenceGroup& group) const;
  BlockTable* find_self(const Sequence& seq);
  bool has_self(const Sequence& seq) const { return find_self(seq) != nullptr; }
  bool has_cross(const SequenceGroup& group) const { return find_cross(group) != nullptr; }
  bool on_host(const SequenceGroup& group) const;
  // The blocks that the group holds, cross and self; shared ones count once.
  int num_blocks(const SequenceGroup& group) const;
  // Device blocks of cross tables; shared ones count once. O(groups).
  int num_cross_device_blocks() const;

  // References of the table's blocks are the caller's gift. There is no such table yet.
  BlockTable& insert_self(const Sequence& seq, BlockTable table);
  void insert_cross(const SequenceGroup& group, BlockTable table);
  void free_self(const Sequence& seq);          // no-op without a table
  void free_cross(const SequenceGroup& group);  // no-op without a table
  void clear();

  // The child shares the parent's blocks.
  BlockTable& fork(const Sequence& parent, const Sequence& child);
  // Every sequence of the group goes on with the table that sequence parents[i] had.
  void adopt_tables(const SequenceGroup& group, const std::vector<int>& parents);
  // The same for the first `full` blocks alone; each keeps its own behind them. In either pool.
  // Such tables' blocks are not cached from then on.
  void adopt_full_blocks(const SequenceGroup& group, const std::vector<int>& parents, int full);
  // Every table of the group goes to the other pool; a block that several of them share moves once.
  // What is in the caches stays there: the group has copies of its own from then on, whose chain is
  // not known.
  BlockPairs move(const SequenceGroup& group, bool to_host);

  // The sequence's blocks from number `first` on are in no other table, and not cached.
  void check_owned(const Sequence& seq, int first) const;
  // Tables and pools agree.
  void check_integrity() const;

 private:
  std::vector<const BlockTable*> of(const SequenceGroup& group) const;
  void replace(std::vector<std::pair<BlockTable*, BlockTable>> changed);

  BlockPools& pools_;
  std::unordered_map<int64_t, BlockTable> self_;       // by sequence id
  std::unordered_map<std::string, BlockTable> cross_;  // by request id
};

}  // namespace tandem
