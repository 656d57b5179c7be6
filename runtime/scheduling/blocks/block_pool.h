// The blocks of one memory pool, by number: a free list and a reference count for each block.
// Every operation is O(1), and the same calls give the same numbers.
//
// A block is in use (it has references), idle or unused. Idle: no references, but its contents are
// in a cache, and may be used again. Idle and unused blocks are both free.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem {

using Blocks = std::vector<int32_t>;

class BlockPool {
 public:
  explicit BlockPool(int num_blocks);

  int num_total() const { return static_cast<int>(refs_.size()); }
  int num_free() const { return num_unused() + num_idle_; }
  int num_unused() const { return static_cast<int>(unused_.size()); }
  int num_idle() const { return num_idle_; }
  int refs(int32_t block) const;
  bool cached(int32_t block) const;

  int32_t allocate();  // with one reference; a pool without unused blocks is a broken invariant
  void add_ref(int32_t block);  // to a block in use or idle
  void release(int32_t block);  // free again when the last reference goes
  void reset();                 // everything is unused, in the first order

  // Its contents are in a cache, or are not any more. Once it is idle, somebody must clear the mark
  // before the block can be allocated.
  void set_cached(int32_t block);  // a block in use
  void clear_cached(int32_t block);
  int32_t oldest_idle() const;  // the block that has been idle for longest; there must be one

  // Blocks without a reference are in one list, each once: cached ones in the list of idle blocks,
  // others in that of unused ones. `mentions[b]` is the owner's count of references.
  void check_integrity(const std::vector<int32_t>& mentions) const;

 private:
  static constexpr int32_t kNone = -1;
  void append_idle(int32_t block);
  void remove_idle(int32_t block);

  Blocks unused_;              // a stack: the block freed last is given out first
  std::vector<int32_t> refs_;  // by block
  // Idle blocks, the oldest first: a list through the blocks.
  std::vector<bool> cached_;  // by block
  Blocks next_, previous_;    // by block
  int32_t first_idle_ = kNone, last_idle_ = kNone;
  int num_idle_ = 0;
};

}  // namespace tandem
