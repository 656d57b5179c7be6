#include "runtime/scheduling/blocks/block_tables.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/check.h"

namespace tandem {

// --- BlockPools ----------------------------------------------------------------------------------

BlockPools::BlockPools(int block_size, int num_device_blocks, int num_host_blocks,
                       CacheOptions caches)
    : block_size_(block_size),
      device_(num_device_blocks),
      host_(num_host_blocks),
      caches_(caches, block_size, device_) {
  TANDEM_CHECK_GT(block_size, 0);
}

int BlockPools::blocks_for(int tokens) const {
  TANDEM_CHECK_GE(tokens, 0);
  return tokens / block_size_ + (tokens % block_size_ != 0);
}

int32_t BlockPools::take(bool on_host) {
  if (on_host) return host_.allocate();
  if (device_.num_unused() == 0) caches_.evict(device_.oldest_idle());
  return device_.allocate();
}

void BlockPools::add_refs(const BlockTable& table) {
  for (const int32_t block : table.blocks) of(table).add_ref(block);
}

void BlockPools::release(const BlockTable& table) {
  // Backwards, so that the blocks go out again in the same order.
  for (auto it = table.blocks.rbegin(); it != table.blocks.rend(); ++it) of(table).release(*it);
}

void BlockPools::reset() {
  caches_.clear();
  device_.reset();
  host_.reset();
}

void BlockPools::check_integrity(const std::vector<int32_t>& device,
                                 const std::vector<int32_t>& host) const {
  device_.check_integrity(device);
  host_.check_integrity(host);
  caches_.check_integrity();
}

// --- BlockTables ---------------------------------------------------------------------------------

const BlockTable* BlockTables::find_self(const Sequence& seq) const {
  const auto it = self_.find(seq.seq_id());
  return it == self_.end() ? nullptr : &it->second;
}

BlockTable* BlockTables::find_self(const Sequence& seq) {
  const auto it = self_.find(seq.seq_id());
  return it == self_.end() ? nullptr : &it->second;
}

const BlockTable* BlockTables::find_cross(const SequenceGroup& group) const {
  const auto it = cross_.find(group.request_id());
  return it == cross_.end() ? nullptr : &it->second;
}

const Blocks& BlockTables::self(const Sequence& seq) const {
  const BlockTable* table = find_self(seq);
  TANDEM_CHECK(table != nullptr, "the sequence has no block table");
  return table->blocks;
}

const Blocks& BlockTables::cross(const SequenceGroup& group) const {
  const BlockTable* table = find_cross(group);
  TANDEM_CHECK(table != nullptr, "the group has no cross block table");
  return table->blocks;
}

std::vector<const BlockTable*> BlockTables::of(const SequenceGroup& group) const {
  std::vector<const BlockTable*> tables;
  if (const BlockTable* table = find_cross(group)) tables.push_back(table);
  for (const auto& seq : group.seqs())
    if (const BlockTable* table = find_self(*seq)) tables.push_back(table);
  return tables;
}

bool BlockTables::on_host(const SequenceGroup& group) const {
  if (const BlockTable* table = find_cross(group)) return table->on_host;
  for (const auto& seq : group.seqs())
    if (const BlockTable* table = find_self(*seq)) return table->on_host;
  return false;
}

int BlockTables::num_blocks(const SequenceGroup& group) const {
  int blocks = 0;
  std::unordered_set<int32_t> shared;
  for (const BlockTable* table : of(group))
    for (const int32_t block : table->blocks)
      if (pools_.of(*table).refs(block) == 1 || shared.insert(block).second) ++blocks;
  return blocks;
}

int BlockTables::num_cross_device_blocks() const {
  // Groups that share a cross table share all of it: each counts its part.
  double blocks = 0;
  for (const auto& [id, table] : cross_)
    if (!table.on_host && !table.blocks.empty())
      blocks +=
          static_cast<double>(table.blocks.size()) / pools_.device().refs(table.blocks.front());
  return static_cast<int>(std::lround(blocks));
}

// --- Coming and going ----------------------------------------------------------------------------

BlockTable& BlockTables::insert_self(const Sequence& seq, BlockTable table) {
  const auto [it, added] = self_.emplace(seq.seq_id(), std::move(table));
  TANDEM_CHECK(added, "the sequence has a block table already");
  return it->second;
}

void BlockTables::insert_cross(const SequenceGroup& group, BlockTable table) {
  const bool added = cross_.emplace(group.request_id(), std::move(table)).second;
  TANDEM_CHECK(added, "the group has a cross block table already");
}

void BlockTables::free_self(const Sequence& seq) {
  const auto it = self_.find(seq.seq_id());
  if (it == self_.end()) return;
  pools_.release(it->second);
  self_.erase(it);
}

void BlockTables::free_cross(const SequenceGroup& group) {
  const auto it = cross_.find(group.request_id());
  if (it == cross_.end()) return;
  pools_.release(it->second);
  cross_.erase(it);
}

void BlockTables::clear() {
  self_.clear();
  cross_.clear();
}

// --- From table to table -------------------------------------------------------------------------

BlockTable& BlockTables::fork(const Sequence& parent, const Sequence& child) {
  TANDEM_CHECK(find_self(child) == nullptr, "the child has a block table already");
  const BlockTable* table = find_self(parent);
  TANDEM_CHECK(table != nullptr, "the parent has no block table");
  pools_.add_refs(*table);
  return insert_self(child, *table);
}

void BlockTables::adopt_tables(const SequenceGroup& group, const std::vector<int>& parents) {
  TANDEM_CHECK_EQ(parents.size(), group.seqs().size());
  std::vector<std::pair<BlockTable*, BlockTable>> changed;
  for (size_t i = 0; i < parents.size(); ++i) {
    const auto parent = static_cast<size_t>(parents[i]);
    if (parent == i) continue;
    const BlockTable* table = find_self(*group.seqs()[parent]);
    TANDEM_CHECK(table != nullptr, "the parent has no block table");
    changed.emplace_back(&self_.at(group.seqs()[i]->seq_id()), *table);
  }
  replace(std::move(changed));
}

void BlockTables::adopt_full_blocks(const SequenceGroup& group, const std::vector<int>& parents,
                                    int full) {
  TANDEM_CHECK_EQ(parents.size(), group.seqs().size());
  std::vector<std::pair<BlockTable*, BlockTable>> changed;
  for (size_t i = 0; i < parents.size(); ++i) {
    const auto parent = static_cast<size_t>(parents[i]);
    if (parent == i) continue;
    const Blocks& from = self(*group.seqs()[parent]);
    BlockTable& own = self_.at(group.seqs()[i]->seq_id());
    TANDEM_CHECK(std::cmp_less_equal(full, std::min(from.size(), own.blocks.size())));
    BlockTable next{.blocks = own.blocks, .on_host = own.on_host};
    std::copy_n(from.begin(), full, next.blocks.begin());
    changed.emplace_back(&own, std::move(next));
  }
  replace(std::move(changed));
}

// Each table becomes what stands beside it. References first, so that nothing is free in between.
void BlockTables::replace(std::vector<std::pair<BlockTable*, BlockTable>> changed) {
  for (const auto& [own, next] : changed) pools_.add_refs(next);
  for (auto& [own, next] : changed) {
    pools_.release(*own);
    *own = std::move(next);
  }
}

BlockPairs BlockTables::move(const SequenceGroup& group, bool to_host) {
  const BlockPool& room = to_host ? pools_.host() : pools_.device();
  TANDEM_CHECK_LE(num_blocks(group), room.num_free());
  BlockPairs pairs;
  std::unordered_map<int32_t, int32_t> moved;  // shared blocks only
  for (const BlockTable* held : of(group)) {
    auto& table = const_cast<BlockTable&>(*held);  // ours
    TANDEM_CHECK(table.on_host != to_host, "the group is not wholly in the pool it leaves");
    BlockPool& from = pools_.of(table);
    table.on_host = to_host;
    for (int32_t& block : table.blocks) {
      const int32_t old = block;
      const auto it = moved.find(old);
      if (it != moved.end()) {
        block = it->second;
        pools_.of(table).add_ref(block);
      } else {
        block = pools_.take(to_host);
        pairs.emplace_back(old, block);
        if (from.refs(old) > 1) moved.emplace(old, block);
      }
      from.release(old);
    }
    table.num_cached = 0;
    table.chain = PrefixCache::kBegin;
  }
  return pairs;
}

// --- Integrity -----------------------------------------------------------------------------------

void BlockTables::check_owned(const Sequence& seq, int first) const {
  const BlockTable* table = find_self(seq);
  TANDEM_CHECK(table != nullptr, "the sequence has no block table");
  for (auto i = static_cast<size_t>(first); i < table->blocks.size(); ++i) {
    TANDEM_CHECK_EQ(pools_.of(*table).refs(table->blocks[i]), 1);
    TANDEM_CHECK(table->on_host || !pools_.device().cached(table->blocks[i]));
  }
}

void BlockTables::check_integrity() const {
  std::vector<int32_t> device(static_cast<size_t>(pools_.device().num_total()));
  std::vector<int32_t> host(static_cast<size_t>(pools_.host().num_total()));
  const auto mention = [&](const BlockTable& table) {
    std::vector<int32_t>& mentions = table.on_host ? host : device;
    for (const int32_t block : table.blocks) {
      TANDEM_CHECK_GE(block, 0);
      TANDEM_CHECK_LT(block, pools_.of(table).num_total());
      ++mentions[static_cast<size_t>(block)];
    }
  };
  for (const auto& [id, table] : self_) {
    mention(table);
    TANDEM_CHECK_LE(static_cast<size_t>(table.num_cached), table.blocks.size());
    for (const int32_t block : table.blocks)
      TANDEM_CHECK(table.on_host || !pools_.caches().holds_cross(block),
                   "a self block that is a cross block");
  }
  for (const auto& [id, table] : cross_) mention(table);
  pools_.check_integrity(device, host);
}

}  // namespace tandem
