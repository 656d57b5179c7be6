// The blocks of one memory pool, by number: a free list and a reference count for each block.
// Every operation is O(1), and the same calls give the same numbers.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem {

class BlockPool {
 public:
  explicit BlockPool(int num_blocks);

  int num_total() const { return static_cast<int>(refs_.size()); }
  int num_free() const { return static_cast<int>(free_.size()); }
  int refs(int32_t block) const;

  int32_t allocate();  // with one reference; a pool without free blocks is a broken invariant
  void add_ref(int32_t block);
  void release(int32_t block);  // free again when the last reference goes
  void reset();                 // everything is free, in the first order

  // The free list holds exactly the blocks without a reference, each once, and `mentions[b]` is the
  // number of references that the owner knows of.
  void check_integrity(const std::vector<int32_t>& mentions) const;

 private:
  std::vector<int32_t> free_;  // a stack: the block freed last is given out first
  std::vector<int32_t> refs_;  // by block
};

}  // namespace tandem
