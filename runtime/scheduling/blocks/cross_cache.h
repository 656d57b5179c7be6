// Which blocks hold the cross-attention keys and values of which source. An entry is a whole cross
// table: the encoder's result is used whole or not at all. Knows nothing of references: the block
// manager tells it when an entry's blocks go to somebody else.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/scheduling/blocks/block_pool.h"

namespace tandem {

class CrossCache {
 public:
  explicit CrossCache(int num_blocks);

  // The blocks of the source with these ids, in order; null if there are none. hash: any function
  // of the ids. Valid until the entry is erased.
  const Blocks* find(uint64_t hash, std::span<const int32_t> tokens) const;
  // No entry has these ids, and none has any of the blocks.
  void insert(uint64_t hash, std::span<const int32_t> tokens, const Blocks& blocks);
  bool holds(int32_t block) const { return owners_[static_cast<size_t>(block)] != nullptr; }
  // Forgets the entry that the block belongs to; returns all its blocks.
  Blocks erase(int32_t block);
  void clear();
  int size() const { return static_cast<int>(entries_.size()); }

  // Every block belongs to the entry that says so.
  void check_integrity() const;

 private:
  struct CachedSource {
    std::vector<int32_t> tokens;
    Blocks blocks;
    uint64_t hash;
  };
  std::unordered_multimap<uint64_t, CachedSource> entries_;  // by hash; entries do not move
  std::vector<const CachedSource*> owners_;                  // by block
};

}  // namespace tandem
