// Which blocks hold the self-attention keys and values of which decoder tokens. What a block holds
// depends on all tokens before it, and on the source (through cross-attention), so blocks form
// chains: a block is found behind the one that was found before it.
//
// A chain has a number that is never used again. Equal (number of the chain before, ids) therefore
// means equal contents, whatever has been evicted and cached again in between; blocks whose chain
// before has been evicted are just not found any more. Knows nothing of references.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/scheduling/blocks/block_pool.h"

namespace tandem {

// What tells sources apart (SequenceGroup::source_key()).
struct SourceTokens {
  uint64_t hash;  // any function of them
  std::span<const int32_t> tokens;
};

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

  // The block that holds `tokens` behind the chain.
  std::optional<Link> find(Chain before, const SourceTokens& source,
                           std::span<const int32_t> tokens) const;
  // The block holds `tokens` behind the chain. Cached from now on, unless another one is cached
  // for the same, or this one is already.
  Link insert(Chain before, const SourceTokens& source, std::span<const int32_t> tokens,
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
    std::vector<int32_t> source;  // of a chain's first block
    std::vector<int32_t> tokens;
  };
  uint64_t hash_of(Chain before, const SourceTokens& source, std::span<const int32_t> tokens) const;

  uint64_t hash_mask_;
  Chain next_ = kBegin + 1;
  std::unordered_multimap<uint64_t, int32_t> index_;  // hash → block
  std::vector<std::unique_ptr<Node>> nodes_;          // by block
};

}  // namespace tandem
