#include "runtime/block_pool.h"

#include <numeric>

#include "kernels/core/check.h"

namespace tandem {

BlockPool::BlockPool(int num_blocks) {
  TANDEM_CHECK_GE(num_blocks, 0);
  refs_.resize(static_cast<size_t>(num_blocks));
  reset();
}

int BlockPool::refs(int32_t block) const {
  TANDEM_CHECK_GE(block, 0);
  TANDEM_CHECK_LT(block, num_total());
  return refs_[static_cast<size_t>(block)];
}

int32_t BlockPool::allocate() {
  TANDEM_CHECK(!free_.empty(), "no free block: ask before allocating");
  const int32_t block = free_.back();
  free_.pop_back();
  TANDEM_CHECK_EQ(refs_[static_cast<size_t>(block)], 0);
  refs_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockPool::add_ref(int32_t block) {
  TANDEM_CHECK_GT(refs(block), 0);
  ++refs_[static_cast<size_t>(block)];
}

void BlockPool::release(int32_t block) {
  TANDEM_CHECK_GT(refs(block), 0);
  if (--refs_[static_cast<size_t>(block)] == 0) free_.push_back(block);
}

void BlockPool::reset() {
  refs_.assign(refs_.size(), 0);
  free_.resize(refs_.size());
  std::iota(free_.rbegin(), free_.rend(), 0);  // block 0 goes out first
}

void BlockPool::check_integrity(const std::vector<int32_t>& mentions) const {
  TANDEM_CHECK_EQ(mentions.size(), refs_.size());
  std::vector<bool> is_free(refs_.size(), false);
  for (const int32_t block : free_) {
    TANDEM_CHECK_EQ(refs(block), 0);
    TANDEM_CHECK(!is_free[static_cast<size_t>(block)], "twice in the free list");
    is_free[static_cast<size_t>(block)] = true;
  }
  size_t referenced = 0;
  for (size_t b = 0; b < refs_.size(); ++b) {
    TANDEM_CHECK_EQ(refs_[b], mentions[b]);
    if (refs_[b] > 0) ++referenced;
  }
  TANDEM_CHECK_EQ(free_.size() + referenced, refs_.size());
}

}  // namespace tandem
