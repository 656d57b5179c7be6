// Caches of blocks (docs/design/scheduling.md §8): cross tables by source, full blocks of decoder
// tokens by prefix.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/scheduling/blocks/block_pool.h"
#include "runtime/scheduling/sequence.h"
#include "runtime/scheduling/source_key.h"

namespace tandem {

// Which blocks hold the cross-attention keys and values of which source. An entry is a whole cross
// table: the encoder's result is used whole or not at all. Knows nothing of references: the block
// manager tells it when an entry's blocks go to somebody else.
class CrossCache {
 public:
  explicit CrossCache(int num_blocks);

  // The blocks of the source, in order; null if there are none. Valid until the entry is erased.
  const Blocks* find(const SourceKey& source) const;
  // No entry has the source, and none has any of the blocks.
  void insert(const SourceKey& source, const Blocks& blocks);
  bool holds(int32_t block) const { return owners_[static_cast<size_t>(block)] != nullptr; }
  // Forgets the entry that the block belongs to; returns all its blocks.
  Blocks erase(int32_t block);
  void clear();
  int size() const { return static_cast<int>(entries_.size()); }

  // Every block belongs to the entry that says so.
  void check_integrity() const;

 private:
  struct CachedSource {
    SourceKey source;
    Blocks blocks;
  };
  std::unordered_multimap<uint64_t, CachedSource> entries_;  // by hash; entries do not move
  std::vector<const CachedSource*> owners_;                  // by block
};

// Which blocks hold the self-attention keys and values of which decoder tokens. A block's contents
// depend on all tokens before it and, through cross-attention, on the source. So blocks form
// chains: a block is found behind the one before it.
//
// A chain has a number that is never used again. So equal (number of the chain before, ids) means
// equal contents, whatever was evicted and cached again in between. Blocks behind an evicted chain
// are not found any more. Knows nothing of references.
class PrefixCache {
 public:
  using Chain = uint64_t;
  static constexpr Chain kBegin = 0;  // no block yet; what follows belongs to the source
  struct Link {
    int32_t block;
    Chain chain;  // up to the end of the block
  };

  // hash_mask: the bits of the hashes that are used.
  explicit PrefixCache(int num_blocks, uint64_t hash_mask = ~uint64_t{0});

  // The block that holds `tokens` behind the chain. source: SequenceGroup::prefix_key().
  std::optional<Link> find(Chain before, const SourceKey& source,
                           std::span<const int32_t> tokens) const;
  // The block holds `tokens` behind the chain. Cached from now on, unless another one is cached
  // for the same, or this one is already.
  Link insert(Chain before, const SourceKey& source, std::span<const int32_t> tokens,
              int32_t block);
  bool holds(int32_t block) const { return nodes_[static_cast<size_t>(block)] != nullptr; }
  void erase(int32_t block);
  void clear();
  int size() const { return static_cast<int>(index_.size()); }

  void check_integrity() const;

 private:
  struct Node {
    Chain chain, before;
    uint64_t hash;
    std::optional<SourceKey> source;  // of a chain's first block
    std::vector<int32_t> tokens;
  };
  uint64_t hash_of(Chain before, const SourceKey& source, std::span<const int32_t> tokens) const;

  uint64_t hash_mask_;
  Chain next_ = kBegin + 1;
  std::unordered_multimap<uint64_t, int32_t> index_;  // hash → block
  std::vector<std::unique_ptr<Node>> nodes_;          // by block
};

// A block that must be copied, and where to.
using BlockPairs = std::vector<std::pair<int32_t, int32_t>>;

// One table: the blocks of a sequence, or of a source, in order.
struct BlockTable {
  Blocks blocks;
  bool on_host = false;
  int num_cached = 0;  // blocks at the front of a self table whose chain is known
  PrefixCache::Chain chain = PrefixCache::kBegin;  // up to their end
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

// Both caches over the blocks of the device pool. A block is marked as cached in the pool exactly
// while one of the caches holds it.
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
