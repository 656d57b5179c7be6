// The block manager against a naive model over random operations.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "runtime/scheduling/blocks/block_manager.h"
#include "runtime/scheduling/sequence.h"
#include "tests/support/scheduling/naive_block_manager.h"
#include "tests/support/scheduling/test_groups.h"

namespace tandem {
namespace {

using testing_support::make_group;
using testing_support::NaiveBlockManager;

// Random operations on both; the contents of simulated pools tell whether every copy was announced.
// With caches, the naive model is told what was found; that it holds the right tokens, and that it
// was counted right, is checked.
class Differential {
 public:
  explicit Differential(uint32_t seed)
      : rng_(seed),
        block_size_(pick({1, 2, 3, 16})),
        device_(static_cast<size_t>(uniform(20, 60))),
        host_(static_cast<size_t>(uniform(0, 40))),
        keys_(device_.size()),
        caches_{uniform(0, 2) > 0, uniform(0, 2) > 0},
        watermark_(pick({0, 1, 3})),
        real_(block_size_, static_cast<int>(device_.size()), static_cast<int>(host_.size()),
              (watermark_ + 0.5) / static_cast<double>(device_.size()), caches_),
        naive_(block_size_, static_cast<int>(device_.size()), static_cast<int>(host_.size()),
               watermark_) {}

  void run(int operations) {
    for (int i = 0; i < operations && !::testing::Test::HasFatalFailure(); ++i) {
      step();
      ASSERT_NO_FATAL_FAILURE(compare());
    }
  }
  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  int uniform(int low, int high) { return std::uniform_int_distribution(low, high)(rng_); }
  int pick(std::vector<int> values) {
    return values[static_cast<size_t>(uniform(0, static_cast<int>(values.size()) - 1))];
  }

  void step() {
    const int op = uniform(0, 99);
    if (op < 20 || groups_.empty()) return add();
    SequenceGroup& group = *groups_[static_cast<size_t>(uniform(0, size() - 1))];
    Sequence& seq =
        *group.seqs()[static_cast<size_t>(uniform(0, static_cast<int>(group.seqs().size()) - 1))];
    if (op < 45) return append(group, seq);
    if (op < 55) return cache(group, seq);
    if (op < 60) return fork(group, seq);
    if (op < 65) return adopt(group);
    if (op < 75) return swap_out(group);
    if (op < 85) return swap_in(group);
    if (op < 91) return free_seq(seq);
    if (op < 99 || uniform(0, 9) > 0) return remove(group);
    reset();
  }

  int size() const { return static_cast<int>(groups_.size()); }
  void count(const char* operation) { ++counts_[operation]; }

  // Some sequences start finished, without a table: they are forked into later.
  void add() {
    testing_support::GroupSpec spec;
    spec.request_id = std::to_string(next_id_);
    spec.seq_ids.clear();
    for (int i = uniform(1, 4); i > 0; --i) spec.seq_ids.push_back(next_id_++);
    spec.encoder_len = uniform(1, 4 * block_size_);
    spec.prompt_len = uniform(1, 3 * block_size_);
    spec.prompt = uniform(0, 1);
    spec.source = uniform(0, 1) == 0 ? 10 + static_cast<int>(next_id_) : uniform(0, 3);
    if (spec.source < 10) spec.encoder_len = (spec.source + 1) * block_size_ - spec.source / 2;
    spec.beams = spec.seq_ids.size() > 1 && uniform(0, 1) == 0;
    auto group = make_group(spec);
    if (group->beams() != nullptr)
      group->beams()->ahead = uniform(0, 2) > 0;
    else
      for (size_t i = 1; i < group->seqs().size(); ++i)
        if (uniform(0, 1) == 0) group->seqs()[i]->set_status(SequenceStatus::kFinishedStopped);
    const int needed = real_.blocks_to_start(*group);
    ASSERT_LE(needed, naive_.blocks_to_start(*group));
    if (!caches_.encoder && !caches_.prefix) {
      ASSERT_EQ(needed, naive_.blocks_to_start(*group));
    }
    const AllocStatus status = naive_.fits(needed);
    ASSERT_EQ(real_.can_allocate(*group), status);
    if (status != AllocStatus::kOk) return;
    const int before = naive_.free_device();
    ASSERT_NO_FATAL_FAILURE(allocate(*group));
    ASSERT_EQ(naive_.free_device(), before - needed);
    groups_.push_back(std::move(group));
  }

  void allocate(const SequenceGroup& group) {
    count(group.searches_ahead() ? "allocate beams" : "allocate");
    auto pages = pages_in_use();
    const bool finds_encoder = real_.finds_encoder(group);
    const BlockManager::Start start = real_.allocate(group);
    ASSERT_EQ(start.encoder_found, finds_encoder);
    const auto found_page = [&](int32_t block, uint64_t key) {
      EXPECT_EQ(keys_.at(block), key) << "block " << block << " holds something else";
      auto& page = pages[block];
      if (!page) {
        page = std::make_shared<NaiveBlockManager::Page>(device_.at(block));
        count("idle block found");
      }
      return page;
    };
    std::map<int64_t, NaiveBlockManager::Pages> found;
    NaiveBlockManager::Pages found_cross;
    for (size_t i = 0; i < group.seqs().size(); ++i) {
      Sequence& seq = *group.seqs()[i];
      const int blocks = start.computed_tokens.at(i) / block_size_;
      ASSERT_EQ(blocks * block_size_, start.computed_tokens[i]);
      ASSERT_LT(start.computed_tokens[i], seq.length());
      seq.advance(start.computed_tokens[i]);
      for (int b = 0; b < blocks; ++b)
        found[seq.seq_id()].push_back(
            found_page(real_.tables().self(seq)[b], self_key(group, seq, b)));
      if (blocks > 0) count("prefix found");
    }
    const Blocks& cross = real_.tables().cross(group);
    if (start.encoder_found) {
      count("encoder found");
      for (size_t b = 0; b < cross.size(); ++b)
        found_cross.push_back(found_page(cross[b], cross_key(group, b)));
    }
    naive_.allocate(group, found, found_cross);
    for (const auto* seq : group.unfinished_seqs())
      write(real_.tables().self(*seq), naive_.self.at(seq->seq_id()),
            static_cast<size_t>(group.waits_for_fork(*seq)
                                    ? naive_.shared(group)
                                    : seq->num_computed_tokens() / block_size_));
    if (start.encoder_found) return;
    write(cross, naive_.cross.at(group.request_id()), 0);
    for (size_t b = 0; b < cross.size(); ++b)
      if (real_.pools().device().cached(cross[b])) keys_.at(cross[b]) = cross_key(group, b);
  }

  static uint64_t cross_key(const SequenceGroup& group, size_t block) {
    return hash_tokens(block + 1, group.encoder_seq().tokens());
  }
  uint64_t self_key(const SequenceGroup& group, const Sequence& seq, int block) const {
    return hash_tokens(hash_tokens(0, group.encoder_seq().tokens()),
                       seq.tokens().first(static_cast<size_t>((block + 1) * block_size_)));
  }

  // Pages on the device, by the blocks that they are in.
  std::map<int32_t, std::shared_ptr<NaiveBlockManager::Page>> pages_in_use() const {
    std::map<int32_t, std::shared_ptr<NaiveBlockManager::Page>> out;
    const auto add = [&](const Blocks& blocks, const NaiveBlockManager::Table& table) {
      for (size_t i = 0; i < blocks.size() && !table.on_host; ++i) out[blocks[i]] = table.pages[i];
    };
    for (const auto& group : groups_) {
      for (const auto& seq : group->seqs())
        if (real_.tables().has_self(*seq))
          add(real_.tables().self(*seq), naive_.self.at(seq->seq_id()));
      if (real_.tables().has_cross(*group))
        add(real_.tables().cross(*group), naive_.cross.at(group->request_id()));
    }
    return out;
  }

  void cache(const SequenceGroup& group, const Sequence& seq) {
    real_.cache_full_blocks(group, seq);
    if (!real_.tables().has_self(seq) || real_.tables().on_host(group)) return;
    const Blocks& blocks = real_.tables().self(seq);
    for (int b = 0; b < seq.num_computed_tokens() / block_size_; ++b) {
      if (!real_.pools().device().cached(blocks[b])) continue;
      uint64_t& key = keys_.at(blocks[b]);
      if (key != 0) {
        ASSERT_EQ(key, self_key(group, seq, b));
      }
      key = self_key(group, seq, b);
      count("cached");
    }
  }

  // Computes all the tokens that the sequence has, and gives it some more; then makes room for
  // them.
  void append(const SequenceGroup& group, Sequence& seq) {
    if (!real_.tables().has_self(seq) || real_.tables().on_host(group)) return;
    int computed = uniform(seq.num_computed_tokens(), covered(seq));
    // Computing writes, and nobody writes to shared blocks.
    if (real_.blocks_to_append(seq, computed) > 0) computed = seq.num_computed_tokens();
    while (seq.length() < computed) seq.append_token(7);
    seq.advance(computed - seq.num_computed_tokens());
    const int tokens = std::max(seq.length(), computed + uniform(1, 2 * block_size_));
    ASSERT_EQ(real_.blocks_to_append(seq, tokens), naive_.blocks_to_append(seq, tokens));
    const bool can = naive_.blocks_to_append(seq, tokens) <= naive_.free_device();
    ASSERT_EQ(real_.blocks_to_append(seq, tokens) <= real_.device().num_free(), can);
    if (!can) return;
    count("append");
    while (seq.length() < tokens) seq.append_token(7);
    const BlockPairs copies = real_.append_slots(seq, tokens);
    naive_.append(seq, tokens);
    if (!copies.empty()) count("copy on write");
    for (const auto& [from, to] : copies) {
      device_.at(to) = device_.at(from);
      keys_.at(to) = 0;
    }
    write(real_.tables().self(seq), naive_.self.at(seq.seq_id()),
          static_cast<size_t>(seq.num_computed_tokens() / block_size_));
  }

  int covered(const Sequence& seq) const {
    return static_cast<int>(real_.tables().self(seq).size()) * block_size_;
  }

  void fork(const SequenceGroup& group, const Sequence& parent) {
    if (!real_.tables().has_self(parent)) return;
    for (const auto& child : group.seqs()) {
      if (child->status() != SequenceStatus::kFinishedStopped) continue;
      count("fork");
      child->set_status(SequenceStatus::kRunning);
      while (child->length() < parent.length()) child->append_token(7);
      child->advance(parent.num_computed_tokens());
      real_.tables().fork(parent, *child);
      naive_.fork(parent, *child);
      return;
    }
  }

  // The first blocks of computed tokens change tables, in either pool.
  void adopt(const SequenceGroup& group) {
    int full = 1000;
    std::vector<int> parents;
    for (const auto& seq : group.seqs()) {
      if (!real_.tables().has_self(*seq)) return;
      full = std::min(full, seq->num_computed_tokens() / block_size_);
      parents.push_back(uniform(0, static_cast<int>(group.seqs().size()) - 1));
    }
    full = uniform(0, full);
    count(full == 0 ? "adopt nothing" : "adopt");
    real_.tables().adopt_full_blocks(group, parents, full);
    naive_.adopt(group, parents, full);
  }

  void swap_out(const SequenceGroup& group) {
    if (real_.tables().on_host(group)) return;
    const bool can = naive_.num_blocks(group) <= naive_.free_host();
    ASSERT_EQ(real_.can_swap_out(group), can);
    if (!can) return;
    count("swap out");
    const BlockPairs pairs = real_.swap_out(group);
    move(pairs, group, device_, host_);
    naive_.set_on_host(group, true);
    const auto used = pages_in_use();
    for (const auto& [source, target] : pairs)
      if (used.count(source) == 0 && !real_.pools().device().cached(source))
        device_.at(source) = -1;
  }

  void swap_in(const SequenceGroup& group) {
    if (!real_.tables().on_host(group)) return;
    const AllocStatus status = naive_.fits(naive_.num_blocks(group));
    ASSERT_EQ(real_.can_swap_in(group), status);
    if (status != AllocStatus::kOk) return;
    count("swap in");
    const BlockPairs pairs = real_.swap_in(group);
    move(pairs, group, host_, device_);
    naive_.set_on_host(group, false);
    for (const auto& [source, target] : pairs) host_.at(source) = -1;
  }

  void move(const BlockPairs& pairs, const SequenceGroup& group, std::vector<int64_t>& from,
            std::vector<int64_t>& to) {
    ASSERT_EQ(static_cast<int>(pairs.size()), naive_.num_blocks(group));
    std::set<int32_t> sources, targets;
    for (const auto& [source, target] : pairs) {
      ASSERT_TRUE(sources.insert(source).second);
      ASSERT_TRUE(targets.insert(target).second);
      to.at(target) = from.at(source);
      if (&to == &device_) keys_.at(target) = 0;
    }
  }

  void free_seq(const Sequence& seq) {
    count("free");
    real_.free(seq);
    naive_.self.erase(seq.seq_id());
  }

  void remove(const SequenceGroup& group) {
    count("free group");
    for (const auto& seq : group.seqs()) free_seq(*seq);
    real_.tables().free_cross(group);
    naive_.cross.erase(group.request_id());
    std::erase_if(groups_, [&](const auto& owned) { return owned.get() == &group; });
  }

  void reset() {
    count("reset");
    real_.reset();
    naive_.reset();
    groups_.clear();
  }

  // What the model computes: it fills the blocks from number `first` on.
  void write(const Blocks& blocks, const NaiveBlockManager::Table& table, size_t first) {
    for (size_t i = first; i < table.pages.size() && i < blocks.size(); ++i) {
      device_.at(blocks[i]) = table.pages[i]->content;
      keys_.at(blocks[i]) = 0;
    }
  }

  void compare() {
    real_.check_integrity();
    ASSERT_EQ(real_.device().num_free(), naive_.free_device());
    ASSERT_EQ(real_.host().num_free(), naive_.free_host());
    for (const auto& group : groups_) {
      ASSERT_EQ(real_.tables().num_blocks(*group), naive_.num_blocks(*group));
      for (const auto& seq : group->seqs()) {
        const auto it = naive_.self.find(seq->seq_id());
        ASSERT_EQ(real_.tables().has_self(*seq), it != naive_.self.end());
        if (it != naive_.self.end()) compare(real_.tables().self(*seq), it->second, *group);
      }
      compare(real_.tables().cross(*group), naive_.cross.at(group->request_id()), *group);
    }
  }

  void compare(const Blocks& blocks, const NaiveBlockManager::Table& table,
               const SequenceGroup& group) {
    ASSERT_EQ(blocks.size(), table.pages.size());
    ASSERT_EQ(real_.tables().on_host(group), table.on_host);
    for (size_t i = 0; i < blocks.size(); ++i)
      ASSERT_EQ((table.on_host ? host_ : device_).at(blocks[i]), table.pages[i]->content);
  }

  std::mt19937 rng_;
  int block_size_;
  std::vector<int64_t> device_, host_;  // contents
  std::vector<uint64_t> keys_;          // of device blocks that are cached: the tokens they hold
  CacheOptions caches_;
  int watermark_;
  BlockManager real_;
  NaiveBlockManager naive_;
  std::vector<std::unique_ptr<SequenceGroup>> groups_;
  int64_t next_id_ = 0;
  std::map<std::string, int> counts_;
};

TEST(BlockManager, AgreesWithTheNaiveModelOverRandomOperations) {
  std::map<std::string, int> counts;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Differential run(seed);
    run.run(150);
    if (HasFatalFailure()) return;
    for (const auto& [operation, n] : run.counts()) counts[operation] += n;
  }
  for (const char* operation : {"allocate", "allocate beams", "adopt", "append", "copy on write",
                                "fork", "swap out", "swap in", "free", "free group", "reset",
                                "cached", "encoder found", "prefix found", "idle block found"})
    EXPECT_GE(counts[operation], 30) << operation;
}

}  // namespace
}  // namespace tandem
