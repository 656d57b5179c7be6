#include "runtime/scheduling/blocks/prefix_cache.h"

#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "runtime/scheduling/token_hash.h"

namespace tandem {
namespace {

bool same(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

PrefixCache::PrefixCache(int num_blocks, uint64_t hash_mask)
    : hash_mask_(hash_mask), nodes_(static_cast<size_t>(num_blocks)) {}

uint64_t PrefixCache::hash_of(Chain before, const SourceTokens& source,
                              std::span<const int32_t> tokens) const {
  return hash_tokens(before == kBegin ? source.hash : hash_mix(0, before), tokens) & hash_mask_;
}

std::optional<PrefixCache::Link> PrefixCache::find(Chain before, const SourceTokens& source,
                                                   std::span<const int32_t> tokens) const {
  const auto [first, last] = index_.equal_range(hash_of(before, source, tokens));
  for (auto it = first; it != last; ++it) {
    const Node& node = *nodes_[static_cast<size_t>(it->second)];
    if (node.before == before && same(node.tokens, tokens) &&
        (before != kBegin || same(node.source, source.tokens)))
      return Link{it->second, node.chain};
  }
  return std::nullopt;
}

PrefixCache::Link PrefixCache::insert(Chain before, const SourceTokens& source,
                                      std::span<const int32_t> tokens, int32_t block) {
  // Sequences that share the block may name the chains before it differently, if one was evicted
  // in between. They are equal.
  std::unique_ptr<Node>& node = nodes_.at(static_cast<size_t>(block));
  if (node) return {block, node->chain};
  if (const auto other = find(before, source, tokens)) return *other;
  node = std::make_unique<Node>(Node{.chain = next_++,
                                     .before = before,
                                     .hash = hash_of(before, source, tokens),
                                     .source = {},
                                     .tokens = {tokens.begin(), tokens.end()}});
  if (before == kBegin) node->source.assign(source.tokens.begin(), source.tokens.end());
  index_.emplace(node->hash, block);
  return {block, node->chain};
}

void PrefixCache::erase(int32_t block) {
  std::unique_ptr<Node>& node = nodes_.at(static_cast<size_t>(block));
  TANDEM_CHECK(node != nullptr, "the block is not cached");
  auto it = index_.equal_range(node->hash).first;
  while (it->second != block) ++it;
  index_.erase(it);
  node.reset();
}

void PrefixCache::clear() {
  index_.clear();
  for (auto& node : nodes_) node.reset();
}

void PrefixCache::check_integrity() const {
  size_t held = 0;
  std::unordered_set<Chain> chains;
  for (size_t b = 0; b < nodes_.size(); ++b) {
    if (!nodes_[b]) continue;
    const Node& node = *nodes_[b];
    ++held;
    TANDEM_CHECK(chains.insert(node.chain).second, "two blocks of one chain");
    TANDEM_CHECK(node.before < node.chain && node.chain < next_);
    const auto [first, last] = index_.equal_range(node.hash);
    TANDEM_CHECK_EQ(
        std::count_if(first, last,
                      [&](const auto& entry) { return entry.second == static_cast<int32_t>(b); }),
        1);
  }
  TANDEM_CHECK_EQ(held, index_.size());
}

}  // namespace tandem
