#include "runtime/scheduling/blocks/block_pool.h"

#include <numeric>

#include "base/check.h"

namespace tandem {
namespace {

size_t at(int32_t block) { return static_cast<size_t>(block); }

}  // namespace

BlockPool::BlockPool(int num_blocks) {
  TANDEM_CHECK_GE(num_blocks, 0);
  refs_.resize(static_cast<size_t>(num_blocks));
  reset();
}

int BlockPool::refs(int32_t block) const {
  TANDEM_CHECK_GE(block, 0);
  TANDEM_CHECK_LT(block, num_total());
  return refs_[at(block)];
}

bool BlockPool::cached(int32_t block) const {
  TANDEM_CHECK_GE(block, 0);
  TANDEM_CHECK_LT(block, num_total());
  return cached_[at(block)];
}

int32_t BlockPool::allocate() {
  TANDEM_CHECK(!unused_.empty(), "no unused block: ask before allocating");
  const int32_t block = unused_.back();
  unused_.pop_back();
  TANDEM_CHECK_EQ(refs_[at(block)], 0);
  refs_[at(block)] = 1;
  return block;
}

void BlockPool::add_ref(int32_t block) {
  if (refs(block) == 0) {
    TANDEM_CHECK(cached_[at(block)], "a block that holds nothing");
    remove_idle(block);
  }
  ++refs_[at(block)];
}

void BlockPool::release(int32_t block) {
  TANDEM_CHECK_GT(refs(block), 0);
  if (--refs_[at(block)] > 0) return;
  if (cached_[at(block)]) {
    append_idle(block);
  } else {
    unused_.push_back(block);
  }
}

void BlockPool::reset() {
  const size_t n = refs_.size();
  refs_.assign(n, 0);
  cached_.assign(n, false);
  next_.assign(n, kNone);
  previous_.assign(n, kNone);
  first_idle_ = last_idle_ = kNone;
  num_idle_ = 0;
  unused_.resize(n);
  std::iota(unused_.rbegin(), unused_.rend(), 0);  // block 0 goes out first
}

// --- Idle blocks ---------------------------------------------------------------------------------

void BlockPool::set_cached(int32_t block) {
  TANDEM_CHECK_GT(refs(block), 0);
  cached_[at(block)] = true;
}

void BlockPool::clear_cached(int32_t block) {
  TANDEM_CHECK(cached(block), "the block is not cached");
  cached_[at(block)] = false;
  if (refs_[at(block)] > 0) return;
  remove_idle(block);
  unused_.push_back(block);
}

int32_t BlockPool::oldest_idle() const {
  TANDEM_CHECK(first_idle_ != kNone, "no free block: ask before allocating");
  return first_idle_;
}

void BlockPool::append_idle(int32_t block) {
  previous_[at(block)] = last_idle_;
  next_[at(block)] = kNone;
  (last_idle_ == kNone ? first_idle_ : next_[at(last_idle_)]) = block;
  last_idle_ = block;
  ++num_idle_;
}

void BlockPool::remove_idle(int32_t block) {
  const int32_t before = previous_[at(block)], after = next_[at(block)];
  (before == kNone ? first_idle_ : next_[at(before)]) = after;
  (after == kNone ? last_idle_ : previous_[at(after)]) = before;
  --num_idle_;
}

void BlockPool::check_integrity(const std::vector<int32_t>& mentions) const {
  TANDEM_CHECK_EQ(mentions.size(), refs_.size());
  std::vector<bool> is_free(refs_.size(), false);
  for (const int32_t block : unused_) {
    TANDEM_CHECK_EQ(refs(block), 0);
    TANDEM_CHECK(!cached(block), "unused, but cached");
    TANDEM_CHECK(!is_free[at(block)], "twice in the free list");
    is_free[at(block)] = true;
  }
  int idle = 0;
  int32_t before = kNone;
  for (int32_t block = first_idle_; block != kNone; block = next_[at(block)]) {
    TANDEM_CHECK_EQ(refs(block), 0);
    TANDEM_CHECK(cached(block), "idle, but not cached");
    TANDEM_CHECK(!is_free[at(block)], "twice in the lists");
    is_free[at(block)] = true;
    TANDEM_CHECK_EQ(previous_[at(block)], before);
    before = block;
    ++idle;
  }
  TANDEM_CHECK_EQ(before, last_idle_);
  TANDEM_CHECK_EQ(idle, num_idle_);
  size_t referenced = 0;
  for (size_t b = 0; b < refs_.size(); ++b) {
    TANDEM_CHECK_EQ(refs_[b], mentions[b]);
    if (refs_[b] > 0) ++referenced;
  }
  TANDEM_CHECK_EQ(static_cast<size_t>(num_free()) + referenced, refs_.size());
}

}  // namespace tandem
