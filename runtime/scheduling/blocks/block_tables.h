// Who has which blocks: a self table for each sequence, a cross table for each group. A group's
// tables are all in the same pool. Every reference that a pool counts is one mention of the block
// in one table.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/scheduling/blocks/block_pools.h"
#include "runtime/scheduling/blocks/block_table.h"
#include "runtime/scheduling/sequence.h"

namespace tandem {

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
