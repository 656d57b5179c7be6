// What the block manager looks up in its caches, puts there, and evicts.
//
// A block is marked as cached in the device pool exactly while one of the caches holds it.

#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "runtime/scheduling/blocks/block_manager.h"

namespace tandem {

// --- Looking up ----------------------------------------------------------------------------------

bool BlockManager::finds_encoder(const SequenceGroup& group) const {
  return caches_.encoder && cross_.find(group.source_hash(), group.source_key()) != nullptr;
}

// The longest chain of blocks that hold the sequence's first tokens. The last token is computed in
// any case: someone wants its logits.
BlockManager::Table BlockManager::find_prefix(const SequenceGroup& group,
                                              const Sequence& seq) const {
  Table table;
  if (!caches_.prefix || group.params().has_prompt_logprobs()) return table;
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

BlockManager::Found BlockManager::look_up(const SequenceGroup& group) const {
  Found found;
  std::unordered_set<int32_t> idle;  // several sequences may find the same
  const auto take = [&](const Blocks& blocks) {
    found.free_blocks -= static_cast<int>(blocks.size());
    for (const int32_t block : blocks)
      if (device_.refs(block) == 0 && idle.insert(block).second) ++found.free_blocks;
  };
  found.self.resize(group.seqs().size());
  for (size_t i = 0; i < found.self.size(); ++i) {
    const Sequence& seq = *group.seqs()[i];
    if (seq.finished()) continue;
    if (group.waits_for_fork(seq)) {
      found.free_blocks += own_last_block(group);
      continue;
    }
    found.free_blocks += blocks_for(seq.length());
    found.self[i] = find_prefix(group, seq);
    take(found.self[i].blocks);
  }
  found.free_blocks += blocks_for(group.encoder_seq().length());
  if (caches_.encoder) found.cross = cross_.find(group.source_hash(), group.source_key());
  if (found.cross != nullptr) take(*found.cross);
  return found;
}

void BlockManager::count_queries(const SequenceGroup& group, const Start& start) {
  if (caches_.encoder) {
    ++stats_.encoder_queries;
    stats_.encoder_hits += start.encoder_found;
    if (start.encoder_found) stats_.encoder_hit_tokens += group.encoder_seq().length();
  }
  if (!caches_.prefix) return;
  for (size_t i = 0; i < group.seqs().size(); ++i) {
    const Sequence& seq = *group.seqs()[i];
    if (seq.finished() || group.waits_for_fork(seq)) continue;
    stats_.prefix_queries += seq.length();
    stats_.prefix_hits += start.computed_tokens[i];
  }
}

// --- Caching -------------------------------------------------------------------------------------

void BlockManager::cache_full_blocks(const SequenceGroup& group, const Sequence& seq) {
  if (!caches_.prefix) return;
  const auto it = self_tables_.find(seq.seq_id());
  if (it == self_tables_.end() || it->second.on_host) return;
  Table& table = it->second;
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

int32_t BlockManager::take_block() {
  if (device_.num_unused() == 0) evict(device_.oldest_idle());
  return device_.allocate();
}

// Out of the cache that holds it. A cross table goes whole.
void BlockManager::evict(int32_t block) {
  Blocks blocks = {block};
  if (cross_.holds(block))
    blocks = cross_.erase(block);
  else
    prefix_.erase(block);
  for (auto it = blocks.rbegin(); it != blocks.rend(); ++it) device_.clear_cached(*it);
  stats_.evicted_blocks += static_cast<int64_t>(blocks.size());
}

void BlockManager::check_caches() const {
  cross_.check_integrity();
  prefix_.check_integrity();
  int cross_blocks = 0;
  for (int32_t block = 0; block < device_.num_total(); ++block) {
    TANDEM_CHECK(!cross_.holds(block) || !prefix_.holds(block), "a block in two caches");
    TANDEM_CHECK_EQ(cross_.holds(block) || prefix_.holds(block), device_.cached(block));
    cross_blocks += cross_.holds(block);
  }
  TANDEM_CHECK(caches_.encoder || cross_blocks == 0);
  TANDEM_CHECK(caches_.prefix || prefix_.size() == 0);
  for (const auto& [id, table] : self_tables_) {
    TANDEM_CHECK_LE(static_cast<size_t>(table.num_cached), table.blocks.size());
    for (const int32_t block : table.blocks)
      TANDEM_CHECK(table.on_host || !cross_.holds(block), "a self block that is a cross block");
  }
}

}  // namespace tandem
