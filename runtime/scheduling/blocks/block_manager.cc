#include "runtime/scheduling/blocks/block_manager.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"

namespace tandem {
namespace {

// What a group that is to start finds in the caches, and the free blocks that it needs besides.
struct StartPlan {
  const Blocks* cross = nullptr;  // null: not found. The cache's
  std::vector<BlockTable> self;   // what was found, by place in group.seqs()
  int free_blocks = 0;            // that it takes, found idle ones included
  // Forks that wait get a last block each; the others they share with sequence 0.
  bool forks_own_last_block = false;
};

// Takes and counts nothing.
StartPlan plan_start(const BlockPools& pools, const SequenceGroup& group) {
  StartPlan found;
  found.forks_own_last_block =
      group.searches_ahead() && group.seqs().front()->length() % pools.block_size() != 0;
  std::unordered_set<int32_t> idle;  // several sequences may find the same
  const auto take = [&](const Blocks& blocks) {
    found.free_blocks -= static_cast<int>(blocks.size());
    for (const int32_t block : blocks)
      if (pools.device().refs(block) == 0 && idle.insert(block).second) ++found.free_blocks;
  };
  found.self.resize(group.seqs().size());
  for (size_t i = 0; i < found.self.size(); ++i) {
    const Sequence& seq = *group.seqs()[i];
    if (seq.finished()) continue;
    if (group.waits_for_fork(seq)) {
      found.free_blocks += found.forks_own_last_block;
      continue;
    }
    found.free_blocks += pools.blocks_for(seq.length());
    found.self[i] = pools.caches().find_prefix(group, seq);
    take(found.self[i].blocks);
  }
  found.free_blocks += pools.blocks_for(group.encoder_seq().length());
  found.cross = pools.caches().find_cross(group);
  if (found.cross != nullptr) take(*found.cross);
  return found;
}

}  // namespace

BlockManager::BlockManager(int block_size, int num_device_blocks, int num_host_blocks,
                           double watermark, CacheOptions caches)
    : watermark_blocks_(static_cast<int>(watermark * num_device_blocks)),
      pools_(block_size, num_device_blocks, num_host_blocks, caches),
      tables_(pools_) {
  TANDEM_CHECK(watermark >= 0 && watermark < 1, "the watermark is a share of the pool");
}

// --- Groups that come in -------------------------------------------------------------------------

bool BlockManager::finds_encoder(const SequenceGroup& group) const {
  return pools_.caches().find_cross(group) != nullptr;
}

int BlockManager::blocks_to_start(const SequenceGroup& group) const {
  return plan_start(pools_, group).free_blocks;
}

AllocStatus BlockManager::fits(int blocks) const {
  const BlockPool& device = pools_.device();
  if (blocks > device.num_total()) return AllocStatus::kNever;
  const bool empty = device.num_free() == device.num_total();
  if (blocks + (empty ? 0 : watermark_blocks_) > device.num_free()) return AllocStatus::kLater;
  return AllocStatus::kOk;
}

AllocStatus BlockManager::can_allocate(const SequenceGroup& group) const {
  return fits(blocks_to_start(group));
}

void BlockManager::extend(BlockTable& table, int tokens) {
  const auto want = static_cast<size_t>(blocks_for(tokens));
  while (table.blocks.size() < want) table.blocks.push_back(pools_.take(table.on_host));
}

BlockManager::Start BlockManager::allocate(const SequenceGroup& group, bool encoder_runs_now) {
  StartPlan found = plan_start(pools_, group);
  TANDEM_CHECK_LE(found.free_blocks, device().num_free());
  // References first: what was found must not be evicted for the rest.
  BlockTable cross;
  if (found.cross != nullptr) cross.blocks = *found.cross;
  pools_.add_refs(cross);
  for (const BlockTable& table : found.self) pools_.add_refs(table);

  Start start{.encoder_found = found.cross != nullptr, .computed_tokens = {}};
  for (size_t i = 0; i < group.seqs().size(); ++i) {
    const Sequence& seq = *group.seqs()[i];
    BlockTable& table = found.self[i];
    start.computed_tokens.push_back(table.num_cached * pools_.block_size());
    if (seq.finished()) continue;
    if (group.waits_for_fork(seq)) {
      BlockTable& forked = tables_.fork(*group.seqs().front(), seq);
      if (found.forks_own_last_block) {
        int32_t& last = forked.blocks.back();
        pools_.device().release(last);
        last = pools_.take(/*on_host=*/false);
      }
      continue;
    }
    extend(table, seq.length());
    tables_.insert_self(seq, std::move(table));
  }
  extend(cross, group.encoder_seq().length());
  pools_.caches().count(group, start.encoder_found, start.computed_tokens);
  if (!start.encoder_found && encoder_runs_now) pools_.caches().insert_cross(group, cross.blocks);
  tables_.insert_cross(group, std::move(cross));
  return start;
}

void BlockManager::cache_encoder(const SequenceGroup& group) {
  if (!finds_encoder(group)) pools_.caches().insert_cross(group, tables_.cross(group));
}

void BlockManager::cache_full_blocks(const SequenceGroup& group, const Sequence& seq) {
  BlockTable* table = tables_.find_self(seq);
  if (table != nullptr && !table->on_host) pools_.caches().insert_full_blocks(group, seq, *table);
}

// --- Sequences that grow -------------------------------------------------------------------------

int BlockManager::blocks_to_append(const Sequence& seq, int tokens) const {
  const BlockTable* table = tables_.find_self(seq);
  TANDEM_CHECK(table != nullptr, "the sequence has no block table");
  const int have = static_cast<int>(table->blocks.size());
  const int want = blocks_for(tokens);
  int blocks = std::max(0, want - have);
  const BlockPool& pool = pools_.of(*table);
  for (int i = seq.num_computed_tokens() / pools_.block_size(); i < std::min(have, want); ++i)
    if (pool.refs(table->blocks[static_cast<size_t>(i)]) > 1) ++blocks;
  return blocks;
}

std::vector<int> BlockManager::blocks_to_append(const std::vector<const Sequence*>& seqs) const {
  std::vector<int> out;
  std::unordered_map<int32_t, int> copies;  // of shared blocks, by those before
  for (const Sequence* seq : seqs) {
    const BlockTable* table = tables_.find_self(*seq);
    TANDEM_CHECK(table != nullptr, "the sequence has no block table");
    const auto at = static_cast<size_t>(seq->num_computed_tokens() / pools_.block_size());
    if (at >= table->blocks.size()) {
      out.push_back(1);
      continue;
    }
    const int32_t block = table->blocks[at];
    const int refs = pools_.of(*table).refs(block);
    out.push_back(refs > 1 && refs - copies[block] > 1 ? 1 : 0);
    copies[block] += out.back();
  }
  return out;
}

BlockPairs BlockManager::append_slots(const Sequence& seq, int tokens) {
  TANDEM_CHECK(blocks_to_append(seq, tokens) <= device().num_free(),
               "not enough free blocks: ask before appending");
  BlockTable& table = *tables_.find_self(seq);
  TANDEM_CHECK(!table.on_host, "a sequence on the host does not grow");
  const size_t want = static_cast<size_t>(blocks_for(tokens));
  BlockPairs copies;
  for (size_t i = static_cast<size_t>(seq.num_computed_tokens() / pools_.block_size());
       i < std::min(want, table.blocks.size()); ++i) {
    int32_t& block = table.blocks[i];
    if (pools_.device().refs(block) == 1) {
      TANDEM_CHECK(!pools_.device().cached(block), "nobody writes to a cached block");
      continue;
    }
    const int32_t copy = pools_.take(/*on_host=*/false);
    pools_.device().release(block);
    copies.emplace_back(block, copy);
    block = copy;
  }
  extend(table, tokens);
  return copies;
}

// --- Swapping and freeing ------------------------------------------------------------------------

bool BlockManager::can_swap_out(const SequenceGroup& group) const {
  return tables_.num_blocks(group) <= host().num_free();
}

BlockPairs BlockManager::swap_out(const SequenceGroup& group) {
  return tables_.move(group, /*to_host=*/true);
}

AllocStatus BlockManager::can_swap_in(const SequenceGroup& group) const {
  return fits(tables_.num_blocks(group));
}

BlockPairs BlockManager::swap_in(const SequenceGroup& group) {
  return tables_.move(group, /*to_host=*/false);
}

void BlockManager::free_all(const SequenceGroup& group) {
  for (const auto& seq : group.seqs()) tables_.free_self(*seq);
  tables_.free_cross(group);
}

void BlockManager::reset() {
  tables_.clear();
  pools_.reset();
}

}  // namespace tandem
