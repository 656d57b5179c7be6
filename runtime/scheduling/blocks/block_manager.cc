// Tables are lists of block numbers in one of two pools; a group's tables are all in the same one.
// Every reference that a pool counts is one mention of the block in one table. What concerns the
// caches is in block_manager_caches.cc.

#include "runtime/scheduling/blocks/block_manager.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/check.h"

namespace tandem {

BlockManager::BlockManager(int block_size, int num_device_blocks, int num_host_blocks,
                           double watermark, CacheOptions caches)
    : block_size_(block_size),
      watermark_blocks_(static_cast<int>(watermark * num_device_blocks)),
      caches_(caches),
      cross_(num_device_blocks),
      prefix_(num_device_blocks),
      device_(num_device_blocks),
      host_(num_host_blocks) {
  TANDEM_CHECK_GT(block_size, 0);
  TANDEM_CHECK(watermark >= 0 && watermark < 1, "the watermark is a share of the pool");
}

int BlockManager::block_size() const { return block_size_; }
int BlockManager::num_total_device_blocks() const { return device_.num_total(); }
int BlockManager::num_total_host_blocks() const { return host_.num_total(); }
int BlockManager::num_free_device_blocks() const { return device_.num_free(); }
int BlockManager::num_free_host_blocks() const { return host_.num_free(); }

int BlockManager::num_cross_device_blocks() const {
  // Groups that share a cross table share all of it: each counts its part.
  double blocks = 0;
  for (const auto& [id, table] : cross_tables_)
    if (!table.on_host && !table.blocks.empty())
      blocks += static_cast<double>(table.blocks.size()) / device_.refs(table.blocks.front());
  return static_cast<int>(std::lround(blocks));
}

int BlockManager::blocks_for(int tokens) const {
  TANDEM_CHECK_GE(tokens, 0);
  return tokens / block_size_ + (tokens % block_size_ != 0);
}

// --- Tables --------------------------------------------------------------------------------------

const BlockManager::Table* BlockManager::find(const Sequence& seq) const {
  const auto it = self_tables_.find(seq.seq_id());
  return it == self_tables_.end() ? nullptr : &it->second;
}

const BlockManager::Table* BlockManager::find_cross(const SequenceGroup& group) const {
  const auto it = cross_tables_.find(group.request_id());
  return it == cross_tables_.end() ? nullptr : &it->second;
}

std::vector<const BlockManager::Table*> BlockManager::tables_of(const SequenceGroup& group) const {
  std::vector<const Table*> tables;
  if (const Table* cross = find_cross(group)) tables.push_back(cross);
  for (const auto& seq : group.seqs())
    if (const Table* self = find(*seq)) tables.push_back(self);
  return tables;
}

std::vector<BlockManager::Table*> BlockManager::tables_of(const SequenceGroup& group) {
  std::vector<Table*> tables;
  for (const Table* table : static_cast<const BlockManager*>(this)->tables_of(group))
    tables.push_back(const_cast<Table*>(table));
  return tables;
}

const Blocks& BlockManager::get_block_table(const Sequence& seq) const {
  const Table* table = find(seq);
  TANDEM_CHECK(table != nullptr, "the sequence has no block table");
  return table->blocks;
}

const Blocks& BlockManager::get_cross_block_table(const SequenceGroup& group) const {
  const Table* table = find_cross(group);
  TANDEM_CHECK(table != nullptr, "the group has no cross block table");
  return table->blocks;
}

bool BlockManager::has_block_table(const Sequence& seq) const { return find(seq) != nullptr; }
bool BlockManager::has_cross_block_table(const SequenceGroup& group) const {
  return find_cross(group) != nullptr;
}

bool BlockManager::on_host(const SequenceGroup& group) const {
  if (const Table* cross = find_cross(group)) return cross->on_host;
  for (const auto& seq : group.seqs())
    if (const Table* self = find(*seq)) return self->on_host;
  return false;
}

int BlockManager::num_blocks(const SequenceGroup& group) const {
  int blocks = 0;
  std::unordered_set<int32_t> shared;
  for (const Table* table : tables_of(group))
    for (const int32_t block : table->blocks)
      if (pool(*table).refs(block) == 1 || shared.insert(block).second) ++blocks;
  return blocks;
}

// --- Allocation ----------------------------------------------------------------------------------

int BlockManager::blocks_to_start(const SequenceGroup& group) const {
  return look_up(group).free_blocks;
}

AllocStatus BlockManager::fits(int blocks) const {
  if (blocks > device_.num_total()) return AllocStatus::kNever;
  const bool empty = device_.num_free() == device_.num_total();
  if (blocks + (empty ? 0 : watermark_blocks_) > device_.num_free()) return AllocStatus::kLater;
  return AllocStatus::kOk;
}

AllocStatus BlockManager::can_allocate(const SequenceGroup& group) const {
  return fits(blocks_to_start(group));
}

void BlockManager::extend(Table& table, int tokens) {
  const auto want = static_cast<size_t>(blocks_for(tokens));
  while (table.blocks.size() < want) table.blocks.push_back(take_block());
}

bool BlockManager::own_last_block(const SequenceGroup& group) const {
  return group.searches_ahead() && group.seqs().front()->length() % block_size_ != 0;
}

BlockManager::Start BlockManager::allocate(const SequenceGroup& group) {
  Found found = look_up(group);
  TANDEM_CHECK_LE(found.free_blocks, num_free_device_blocks());
  // References first: what was found must not be evicted for the rest.
  Table cross;
  if (found.cross != nullptr) cross.blocks = *found.cross;
  for (const int32_t block : cross.blocks) device_.add_ref(block);
  for (const Table& table : found.self)
    for (const int32_t block : table.blocks) device_.add_ref(block);

  Start start{.encoder_found = found.cross != nullptr, .computed_tokens = {}};
  for (size_t i = 0; i < group.seqs().size(); ++i) {
    const Sequence& seq = *group.seqs()[i];
    Table& table = found.self[i];
    start.computed_tokens.push_back(table.num_cached * block_size_);
    if (seq.finished()) continue;
    if (group.waits_for_fork(seq)) {
      fork(*group.seqs().front(), seq);
      if (own_last_block(group)) {
        int32_t& last = self_tables_.at(seq.seq_id()).blocks.back();
        device_.release(last);
        last = take_block();
      }
      continue;
    }
    extend(table, seq.length());
    const bool added = self_tables_.emplace(seq.seq_id(), std::move(table)).second;
    TANDEM_CHECK(added, "the sequence has a block table already");
  }
  extend(cross, group.encoder_seq().length());
  count_queries(group, start);
  if (caches_.encoder && !start.encoder_found) {
    cross_.insert(group.source_hash(), group.source_key(), cross.blocks);
    for (const int32_t block : cross.blocks) device_.set_cached(block);
  }
  const bool added = cross_tables_.emplace(group.request_id(), std::move(cross)).second;
  TANDEM_CHECK(added, "the group has a cross block table already");
  return start;
}

int BlockManager::blocks_to_append(const Sequence& seq, int tokens) const {
  const Table* table = find(seq);
  TANDEM_CHECK(table != nullptr, "the sequence has no block table");
  const int have = static_cast<int>(table->blocks.size());
  const int want = blocks_for(tokens);
  int blocks = std::max(0, want - have);
  for (int i = seq.num_computed_tokens() / block_size_; i < std::min(have, want); ++i)
    if (pool(*table).refs(table->blocks[static_cast<size_t>(i)]) > 1) ++blocks;
  return blocks;
}

std::vector<int> BlockManager::blocks_to_append(const std::vector<const Sequence*>& seqs) const {
  std::vector<int> out;
  std::unordered_map<int32_t, int> copies;  // of shared blocks, by those before
  for (const Sequence* seq : seqs) {
    const Table* table = find(*seq);
    TANDEM_CHECK(table != nullptr, "the sequence has no block table");
    const auto at = static_cast<size_t>(seq->num_computed_tokens() / block_size_);
    if (at >= table->blocks.size()) {
      out.push_back(1);
      continue;
    }
    const int32_t block = table->blocks[at];
    const int refs = pool(*table).refs(block);
    out.push_back(refs > 1 && refs - copies[block] > 1 ? 1 : 0);
    copies[block] += out.back();
  }
  return out;
}

bool BlockManager::can_append(const Sequence& seq, int tokens) const {
  return blocks_to_append(seq, tokens) <= num_free_device_blocks();
}

BlockPairs BlockManager::append_slots(const Sequence& seq, int tokens) {
  TANDEM_CHECK(can_append(seq, tokens), "not enough free blocks: ask before appending");
  Table& table = self_tables_.at(seq.seq_id());
  TANDEM_CHECK(!table.on_host, "a sequence on the host does not grow");
  const size_t want = static_cast<size_t>(blocks_for(tokens));
  BlockPairs copies;
  for (size_t i = static_cast<size_t>(seq.num_computed_tokens() / block_size_);
       i < std::min(want, table.blocks.size()); ++i) {
    int32_t& block = table.blocks[i];
    if (device_.refs(block) == 1) {
      TANDEM_CHECK(!device_.cached(block), "nobody writes to a cached block");
      continue;
    }
    const int32_t copy = take_block();
    device_.release(block);
    copies.emplace_back(block, copy);
    block = copy;
  }
  extend(table, tokens);
  return copies;
}

void BlockManager::fork(const Sequence& parent, const Sequence& child) {
  TANDEM_CHECK(find(child) == nullptr, "the child has a block table already");
  const Table* table = find(parent);
  TANDEM_CHECK(table != nullptr, "the parent has no block table");
  Table copy = *table;  // emplace may move the parent's
  for (const int32_t block : copy.blocks) pool(copy).add_ref(block);
  self_tables_.emplace(child.seq_id(), std::move(copy));
}

void BlockManager::adopt_tables(const SequenceGroup& group, const std::vector<int>& parents) {
  TANDEM_CHECK_EQ(parents.size(), group.seqs().size());
  std::vector<std::pair<Table*, Table>> changed;
  for (size_t i = 0; i < parents.size(); ++i) {
    const auto parent = static_cast<size_t>(parents[i]);
    if (parent == i) continue;
    const Table* table = find(*group.seqs()[parent]);
    TANDEM_CHECK(table != nullptr, "the parent has no block table");
    changed.emplace_back(&self_tables_.at(group.seqs()[i]->seq_id()), *table);
  }
  replace_tables(std::move(changed));
}

void BlockManager::adopt_full_blocks(const SequenceGroup& group, const std::vector<int>& parents,
                                     int full) {
  TANDEM_CHECK_EQ(parents.size(), group.seqs().size());
  std::vector<std::pair<Table*, Table>> changed;
  for (size_t i = 0; i < parents.size(); ++i) {
    const auto parent = static_cast<size_t>(parents[i]);
    if (parent == i) continue;
    const Blocks& from = get_block_table(*group.seqs()[parent]);
    Table& own = self_tables_.at(group.seqs()[i]->seq_id());
    TANDEM_CHECK(std::cmp_less_equal(full, std::min(from.size(), own.blocks.size())));
    Table next{.blocks = own.blocks, .on_host = own.on_host};
    std::copy_n(from.begin(), full, next.blocks.begin());
    changed.emplace_back(&own, std::move(next));
  }
  replace_tables(std::move(changed));
}

// Each table becomes what stands beside it. References first, so that nothing is free in between.
void BlockManager::replace_tables(std::vector<std::pair<Table*, Table>> changed) {
  for (const auto& [own, next] : changed)
    for (const int32_t block : next.blocks) pool(next).add_ref(block);
  for (auto& [own, next] : changed) {
    release(*own);
    *own = std::move(next);
  }
}

// --- Swapping ------------------------------------------------------------------------------------

// Moves every table of the group; a block that several of them share moves once. What is in the
// caches stays there: the group has copies of its own from then on, whose chain is not known.
BlockPairs BlockManager::move(const SequenceGroup& group, BlockPool& from, BlockPool& to) {
  TANDEM_CHECK_LE(num_blocks(group), to.num_free());
  BlockPairs pairs;
  std::unordered_map<int32_t, int32_t> moved;  // shared blocks only
  for (Table* table : tables_of(group)) {
    TANDEM_CHECK(&pool(*table) == &from, "the group is not wholly in the pool it leaves");
    for (int32_t& block : table->blocks) {
      const int32_t old = block;
      const auto it = moved.find(old);
      if (it != moved.end()) {
        block = it->second;
        to.add_ref(block);
      } else {
        block = &to == &device_ ? take_block() : to.allocate();
        pairs.emplace_back(old, block);
        if (from.refs(old) > 1) moved.emplace(old, block);
      }
      from.release(old);
    }
    table->on_host = !table->on_host;
    table->num_cached = 0;
    table->chain = PrefixCache::kBegin;
  }
  return pairs;
}

bool BlockManager::can_swap_out(const SequenceGroup& group) const {
  return num_blocks(group) <= num_free_host_blocks();
}

BlockPairs BlockManager::swap_out(const SequenceGroup& group) {
  return move(group, device_, host_);
}

AllocStatus BlockManager::can_swap_in(const SequenceGroup& group) const {
  return fits(num_blocks(group));
}

BlockPairs BlockManager::swap_in(const SequenceGroup& group) { return move(group, host_, device_); }

// --- Freeing -------------------------------------------------------------------------------------

void BlockManager::release(const Table& table) {
  // Backwards, so that the blocks go out again in the same order.
  for (auto it = table.blocks.rbegin(); it != table.blocks.rend(); ++it) pool(table).release(*it);
}

void BlockManager::free(const Sequence& seq) {
  const auto it = self_tables_.find(seq.seq_id());
  if (it == self_tables_.end()) return;
  release(it->second);
  self_tables_.erase(it);
}

void BlockManager::free_cross(const SequenceGroup& group) {
  const auto it = cross_tables_.find(group.request_id());
  if (it == cross_tables_.end()) return;
  release(it->second);
  cross_tables_.erase(it);
}

void BlockManager::reset() {
  self_tables_.clear();
  cross_tables_.clear();
  cross_.clear();
  prefix_.clear();
  device_.reset();
  host_.reset();
}

void BlockManager::check_owned(const Sequence& seq, int first) const {
  const Table* table = find(seq);
  TANDEM_CHECK(table != nullptr, "the sequence has no block table");
  for (auto i = static_cast<size_t>(first); i < table->blocks.size(); ++i) {
    TANDEM_CHECK_EQ(pool(*table).refs(table->blocks[i]), 1);
    TANDEM_CHECK(table->on_host || !device_.cached(table->blocks[i]));
  }
}

void BlockManager::check_table(const Table& table, std::vector<int32_t>& device,
                               std::vector<int32_t>& host) const {
  std::vector<int32_t>& mentions = table.on_host ? host : device;
  for (const int32_t block : table.blocks) {
    TANDEM_CHECK_GE(block, 0);
    TANDEM_CHECK_LT(block, pool(table).num_total());
    ++mentions[static_cast<size_t>(block)];
  }
}

void BlockManager::check_integrity() const {
  std::vector<int32_t> device(static_cast<size_t>(device_.num_total()));
  std::vector<int32_t> host(static_cast<size_t>(host_.num_total()));
  for (const auto& [id, table] : self_tables_) check_table(table, device, host);
  for (const auto& [id, table] : cross_tables_) check_table(table, device, host);
  device_.check_integrity(device);
  host_.check_integrity(host);
  check_caches();
}

}  // namespace tandem
