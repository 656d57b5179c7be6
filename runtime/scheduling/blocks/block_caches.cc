#include "runtime/scheduling/blocks/block_caches.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {
namespace {

SourceTokens source_of(const SequenceGroup& group) {
  return {group.source_hash(), group.source_key()};
}

}  // namespace

BlockCaches::BlockCaches(CacheOptions options, int block_size, BlockPool& device)
    : options_(options),
      block_size_(block_size),
      device_(device),
      cross_(device.num_total()),
      prefix_(device.num_total()) {}

const Blocks* BlockCaches::find_cross(const SequenceGroup& group) const {
  return options_.encoder ? cross_.find(group.source_hash(), group.source_key()) : nullptr;
}

// The last token is computed in any case: someone wants its logits.
BlockTable BlockCaches::find_prefix(const SequenceGroup& group, const Sequence& seq) const {
  BlockTable table;
  if (!options_.prefix || group.params().has_prompt_logprobs()) return table;
  const auto tokens = seq.tokens();
  const auto size = static_cast<size_t>(block_size_);
  for (size_t at = 0; at + size < tokens.size(); at += size) {
    const auto link = prefix_.find(table.chain, source_of(group), tokens.subspan(at, size));
    if (!link) break;
    table.blocks.push_back(link->block);
    table.chain = link->chain;
    ++table.num_cached;
  }
  return table;
}

void BlockCaches::insert_cross(const SequenceGroup& group, const Blocks& blocks) {
  if (!options_.encoder) return;
  cross_.insert(group.source_hash(), group.source_key(), blocks);
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
        prefix_.insert(table.chain, source_of(group), tokens.subspan(i * size, size), block);
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
