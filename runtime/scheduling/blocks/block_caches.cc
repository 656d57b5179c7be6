#include "runtime/scheduling/blocks/block_caches.h"

#include <algorithm>
#include <unordered_set>

#include "base/check.h"

namespace tandem {
namespace {

bool same(std::span<const int32_t> a, std::span<const int32_t> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

// --- CrossCache ----------------------------------------------------------------------------------

CrossCache::CrossCache(int num_blocks) : owners_(static_cast<size_t>(num_blocks)) {}

const Blocks* CrossCache::find(const SourceKey& source) const {
  const auto [first, last] = entries_.equal_range(source.hash());
  for (auto it = first; it != last; ++it)
    if (it->second.source == source) return &it->second.blocks;
  return nullptr;
}

void CrossCache::insert(const SourceKey& source, const Blocks& blocks) {
  TANDEM_CHECK(!source.numbers().empty() && !blocks.empty());
  const auto it = entries_.emplace(source.hash(), CachedSource{source, blocks});
  for (const int32_t block : blocks) {
    const CachedSource*& owner = owners_.at(static_cast<size_t>(block));
    TANDEM_CHECK(owner == nullptr, "a block of two sources");
    owner = &it->second;
  }
}

Blocks CrossCache::erase(int32_t block) {
  const CachedSource* const entry = owners_.at(static_cast<size_t>(block));
  TANDEM_CHECK(entry != nullptr, "a block of no source");
  Blocks blocks = entry->blocks;
  for (const int32_t b : blocks) owners_[static_cast<size_t>(b)] = nullptr;
  auto it = entries_.equal_range(entry->source.hash()).first;
  while (&it->second != entry) ++it;
  entries_.erase(it);
  return blocks;
}

void CrossCache::clear() {
  entries_.clear();
  owners_.assign(owners_.size(), nullptr);
}

void CrossCache::check_integrity() const {
  size_t owned = 0;
  for (const auto& [hash, entry] : entries_) {
    TANDEM_CHECK_EQ(hash, entry.source.hash());
    TANDEM_CHECK(find(entry.source) == &entry.blocks, "two entries of one source");
    owned += entry.blocks.size();
    for (const int32_t block : entry.blocks)
      TANDEM_CHECK(owners_.at(static_cast<size_t>(block)) == &entry);
  }
  const auto free = std::count(owners_.begin(), owners_.end(), nullptr);
  TANDEM_CHECK_EQ(owned + static_cast<size_t>(free), owners_.size());
}

// --- PrefixCache ---------------------------------------------------------------------------------

PrefixCache::PrefixCache(int num_blocks, uint64_t hash_mask)
    : hash_mask_(hash_mask), nodes_(static_cast<size_t>(num_blocks)) {}

uint64_t PrefixCache::hash_of(Chain before, const SourceKey& source,
                              std::span<const int32_t> tokens) const {
  return hash_tokens(before == kBegin ? source.hash() : hash_mix(0, before), tokens) & hash_mask_;
}

std::optional<PrefixCache::Link> PrefixCache::find(Chain before, const SourceKey& source,
                                                   std::span<const int32_t> tokens) const {
  const auto [first, last] = index_.equal_range(hash_of(before, source, tokens));
  for (auto it = first; it != last; ++it) {
    const Node& node = *nodes_[static_cast<size_t>(it->second)];
    if (node.before == before && same(node.tokens, tokens) &&
        (before != kBegin || node.source == source))
      return Link{it->second, node.chain};
  }
  return std::nullopt;
}

PrefixCache::Link PrefixCache::insert(Chain before, const SourceKey& source,
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
  if (before == kBegin) node->source = source;
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

// --- BlockCaches ---------------------------------------------------------------------------------

BlockCaches::BlockCaches(CacheOptions options, int block_size, BlockPool& device)
    : options_(options),
      block_size_(block_size),
      device_(device),
      cross_(device.num_total()),
      prefix_(device.num_total()) {}

const Blocks* BlockCaches::find_cross(const SequenceGroup& group) const {
  return options_.encoder ? cross_.find(group.source_key()) : nullptr;
}

// The last token is computed in any case: someone wants its logits.
BlockTable BlockCaches::find_prefix(const SequenceGroup& group, const Sequence& seq) const {
  BlockTable table;
  if (!options_.prefix || group.params().has_prompt_logprobs() || wants_all_rows(group.params()))
    return table;
  const auto tokens = seq.tokens();
  const auto size = static_cast<size_t>(block_size_);
  for (size_t at = 0; at + size < tokens.size(); at += size) {
    const auto link = prefix_.find(table.chain, group.prefix_key(), tokens.subspan(at, size));
    if (!link) break;
    table.blocks.push_back(link->block);
    table.chain = link->chain;
    ++table.num_cached;
  }
  return table;
}

void BlockCaches::insert_cross(const SequenceGroup& group, const Blocks& blocks) {
  if (!options_.encoder) return;
  cross_.insert(group.source_key(), blocks);
  for (const int32_t block : blocks) device_.set_cached(block);
}

void BlockCaches::insert_full_blocks(const SequenceGroup& group, const Sequence& seq,
                                     BlockTable& table) {
  if (!options_.prefix) return;
  const auto tokens = seq.tokens();
  const auto size = static_cast<size_t>(block_size_);
  const size_t known = std::min(tokens.size(), static_cast<size_t>(seq.num_computed_tokens()));
  for (auto i = static_cast<size_t>(table.num_cached); (i + 1) * size <= known; ++i) {
    const int32_t block = table.blocks[i];
    const auto link =
        prefix_.insert(table.chain, group.prefix_key(), tokens.subspan(i * size, size), block);
    if (link.block == block) device_.set_cached(block);
    table.chain = link.chain;
    ++table.num_cached;
  }
}

void BlockCaches::count(const SequenceGroup& group, bool encoder_found,
                        const std::vector<int>& computed_tokens) {
  if (options_.encoder) {
    ++stats_.encoder_queries;
    stats_.encoder_hits += encoder_found;
    if (encoder_found) stats_.encoder_hit_tokens += group.encoder_seq().length();
  }
  if (!options_.prefix) return;
  for (size_t i = 0; i < group.seqs().size(); ++i) {
    const Sequence& seq = *group.seqs()[i];
    if (seq.finished() || group.waits_for_fork(seq)) continue;
    stats_.prefix_queries += seq.length();
    stats_.prefix_hits += computed_tokens[i];
  }
}

void BlockCaches::evict(int32_t block) {
  Blocks blocks = {block};
  if (cross_.holds(block))
    blocks = cross_.erase(block);
  else
    prefix_.erase(block);
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) device_.clear_cached(*it);
  stats_.evicted_blocks += static_cast<int64_t>(blocks.size());
}

void BlockCaches::clear() {
  cross_.clear();
  prefix_.clear();
}

void BlockCaches::check_integrity() const {
  cross_.check_integrity();
  prefix_.check_integrity();
  TANDEM_CHECK(options_.encoder || cross_.size() == 0);
  TANDEM_CHECK(options_.prefix || prefix_.size() == 0);
  for (int32_t block = 0; block < device_.num_total(); ++block) {
    TANDEM_CHECK(!cross_.holds(block) || !prefix_.holds(block), "a block in two caches");
    TANDEM_CHECK_EQ(cross_.holds(block) || prefix_.holds(block), device_.cached(block));
  }
}

}  // namespace tandem
