#include "runtime/scheduling/blocks/block_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/support/scheduling/naive_block_manager.h"
#include "tests/support/scheduling/test_groups.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using testing_support::make_group;
using testing_support::NaiveBlockManager;

// Gives the sequence `tokens` more tokens, all computed.
void grow(Sequence& seq, int tokens) {
  for (int i = 0; i < tokens; ++i) seq.append_token(7);
  seq.advance(seq.num_uncomputed_tokens());
}

// --- The free-block equations, one by one --------------------------------------------------------

class Equations : public ::testing::Test {
 protected:
  // |cross| = ceil(5/2) = 3, |self| = ceil(3/2) = 2 for each of two sequences.
  static constexpr int kGroupBlocks = 3 + 2 + 2;

  void check(int device, int host) {
    blocks_.check_integrity();
    EXPECT_EQ(blocks_.device().num_free(), device);
    EXPECT_EQ(blocks_.host().num_free(), host);
  }

  BlockManager blocks_{2, 20, 10, 0.0};
  std::unique_ptr<SequenceGroup> group_ =
      make_group({.seq_ids = {1, 2}, .encoder_len = 5, .prompt_len = 3});
};

TEST_F(Equations, Allocate) {
  EXPECT_EQ(blocks_.blocks_to_start(*group_), kGroupBlocks);
  EXPECT_FALSE(blocks_.tables().has_cross(*group_));
  blocks_.allocate(*group_);
  check(20 - kGroupBlocks, 10);
  EXPECT_EQ(blocks_.tables().num_blocks(*group_), kGroupBlocks);
  EXPECT_THAT(blocks_.tables().cross(*group_), SizeIs(3));
  EXPECT_THAT(blocks_.tables().self(*group_->find(1)), SizeIs(2));
  EXPECT_THAT(blocks_.tables().self(*group_->find(2)), SizeIs(2));
  EXPECT_FALSE(blocks_.tables().on_host(*group_));
}

TEST_F(Equations, SwapOutAndIn) {
  blocks_.allocate(*group_);
  ASSERT_TRUE(blocks_.can_swap_out(*group_));
  EXPECT_THAT(blocks_.swap_out(*group_), SizeIs(kGroupBlocks));
  check(20, 10 - kGroupBlocks);
  EXPECT_TRUE(blocks_.tables().on_host(*group_));
  EXPECT_EQ(blocks_.can_swap_in(*group_), AllocStatus::kOk);
  EXPECT_THAT(blocks_.swap_in(*group_), SizeIs(kGroupBlocks));
  check(20 - kGroupBlocks, 10);
  EXPECT_FALSE(blocks_.tables().on_host(*group_));
}

TEST_F(Equations, FreeOnTheDevice) {
  blocks_.allocate(*group_);
  blocks_.free(*group_->find(1));
  check(20 - kGroupBlocks + 2, 10);
  EXPECT_FALSE(blocks_.tables().has_self(*group_->find(1)));
  blocks_.free(*group_->find(1));  // no-op
  check(20 - kGroupBlocks + 2, 10);
  blocks_.tables().free_cross(*group_);
  check(20 - 2, 10);
  blocks_.tables().free_cross(*group_);  // no-op
  blocks_.free(*group_->find(2));
  check(20, 10);
}

TEST_F(Equations, CrossBlocksOnTheDevice) {
  const auto other = make_group({.request_id = "other", .seq_ids = {3}, .encoder_len = 4});
  EXPECT_EQ(blocks_.tables().num_cross_device_blocks(), 0);
  blocks_.allocate(*group_);
  EXPECT_EQ(blocks_.tables().num_cross_device_blocks(), 3);
  blocks_.allocate(*other);
  EXPECT_EQ(blocks_.tables().num_cross_device_blocks(), 3 + 2);
  blocks_.swap_out(*group_);
  EXPECT_EQ(blocks_.tables().num_cross_device_blocks(), 2);
  blocks_.tables().free_cross(*other);
  EXPECT_EQ(blocks_.tables().num_cross_device_blocks(), 0);
}

TEST_F(Equations, FreeOnTheHost) {
  blocks_.allocate(*group_);
  blocks_.swap_out(*group_);
  blocks_.free(*group_->find(2));
  check(20, 10 - kGroupBlocks + 2);
  blocks_.tables().free_cross(*group_);
  check(20, 10 - 2);
  EXPECT_TRUE(blocks_.tables().on_host(*group_));
  blocks_.free(*group_->find(1));
  check(20, 10);
}

TEST_F(Equations, Reset) {
  const auto other = make_group({.request_id = "other", .seq_ids = {3}});
  blocks_.allocate(*group_);
  blocks_.swap_out(*group_);
  blocks_.allocate(*other);
  blocks_.reset();
  check(20, 10);
  EXPECT_FALSE(blocks_.tables().has_cross(*other));
  blocks_.allocate(*group_);
  check(20 - kGroupBlocks, 10);
}

TEST_F(Equations, AppendTakesABlockWhenTheLastOneIsFull) {
  blocks_.allocate(*group_);
  Sequence& seq = *group_->find(1);
  seq.advance(3);
  seq.append_token(7);  // 4 tokens: two full blocks
  EXPECT_EQ(blocks_.blocks_to_append(seq, 4), 0);
  EXPECT_THAT(blocks_.append_slots(seq, 4), IsEmpty());
  check(20 - kGroupBlocks, 10);
  grow(seq, 1);
  EXPECT_EQ(blocks_.blocks_to_append(seq, 6), 1);
  EXPECT_THAT(blocks_.append_slots(seq, 6), IsEmpty());
  check(20 - kGroupBlocks - 1, 10);
  EXPECT_THAT(blocks_.tables().self(seq), SizeIs(3));
}

TEST_F(Equations, ForkSharesAndTheFirstWriterCopies) {
  blocks_.allocate(*group_);
  Sequence& parent = *group_->find(1);
  Sequence& child = *group_->find(2);
  blocks_.free(child);
  check(20 - 5, 10);
  blocks_.tables().fork(parent, child);
  check(20 - 5, 10);  // a block shared by two tables counts once
  parent.advance(3);
  child.advance(3);
  parent.append_token(7);
  child.append_token(8);
  const Blocks shared = blocks_.tables().self(parent);
  EXPECT_EQ(blocks_.blocks_to_append(parent, 4), 1);
  const BlockPairs copies = blocks_.append_slots(parent, 4);
  ASSERT_THAT(copies, ElementsAre(Pair(shared[1], blocks_.tables().self(parent)[1])));
  EXPECT_NE(copies[0].first, copies[0].second);
  EXPECT_EQ(blocks_.tables().self(parent)[0], shared[0]);
  check(20 - 6, 10);
  // The child is the only owner now, and writes in place.
  EXPECT_EQ(blocks_.blocks_to_append(child, 4), 0);
  EXPECT_THAT(blocks_.append_slots(child, 4), IsEmpty());
  EXPECT_EQ(blocks_.tables().self(child), shared);
  check(20 - 6, 10);
  // Swapping moves the block that both still share once.
  EXPECT_THAT(blocks_.swap_out(*group_), SizeIs(6));
  check(20, 10 - 6);
  EXPECT_EQ(blocks_.tables().self(child)[0], blocks_.tables().self(parent)[0]);
  blocks_.free(parent);
  check(20, 10 - 5);
  blocks_.free(child);
  check(20, 10 - 3);
}

TEST(BlockManager, SayWhatFits) {
  BlockManager blocks(2, 10, 3, 0.2);  // two blocks are kept free
  const auto group = [](const char* id, int64_t seq, int encoder_len) {
    return make_group(
        {.request_id = id, .seq_ids = {seq}, .encoder_len = encoder_len, .prompt_len = 2});
  };
  EXPECT_EQ(blocks.can_allocate(*group("too large", 1, 20)), AllocStatus::kNever);
  EXPECT_EQ(blocks.can_allocate(*group("as large as the pool", 1, 18)), AllocStatus::kOk);
  const auto first = group("first", 1, 6);  // 4 blocks
  blocks.allocate(*first);
  EXPECT_EQ(blocks.can_allocate(*group("up to the watermark", 2, 6)), AllocStatus::kOk);
  EXPECT_EQ(blocks.can_allocate(*group("into the watermark", 2, 8)), AllocStatus::kLater);
  EXPECT_FALSE(blocks.can_swap_out(*first)) << "4 blocks into a host pool of 3";
  EXPECT_EQ(blocks.blocks_for(0), 0);
  EXPECT_EQ(blocks.blocks_for(1), 1);
  EXPECT_EQ(blocks.blocks_for(2), 1);
  EXPECT_EQ(blocks.blocks_for(3), 2);
}

TEST(BlockManager, SameCallsSameBlocks) {
  const auto run = [] {
    BlockManager blocks(1, 50, 0);
    std::vector<Blocks> tables;
    std::vector<std::unique_ptr<SequenceGroup>> groups;
    for (int i = 0; i < 8; ++i) {
      groups.push_back(make_group({.request_id = std::to_string(i), .seq_ids = {i}}));
      blocks.allocate(*groups.back());
      if (i % 3 == 2) blocks.free(*groups[i - 1]->seqs()[0]);
      tables.push_back(blocks.tables().self(*groups.back()->seqs()[0]));
    }
    return tables;
  };
  EXPECT_EQ(run(), run());
}

TEST(BlockManagerDeathTest, BrokenInvariants) {
  BlockManager blocks(2, 4, 0);
  const auto group = make_group({});
  EXPECT_DEATH(blocks.tables().self(*group->seqs()[0]), "no block table");
  EXPECT_DEATH(blocks.tables().cross(*group), "no cross block table");
  blocks.allocate(*group);
  EXPECT_DEATH(blocks.allocate(*group), "");
  EXPECT_DEATH(blocks.swap_out(*group), "");
  EXPECT_DEATH(blocks.append_slots(*group->seqs()[0], 100), "not enough free blocks");
}

}  // namespace
}  // namespace tandem
