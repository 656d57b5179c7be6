// The block manager's caches, case by case: what is found, what it costs, what is evicted when.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "runtime/scheduling/blocks/block_manager.h"
#include "tests/support/scheduling/test_groups.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing_support::GroupSpec;
using testing_support::make_group;

class Caches : public ::testing::Test {
 protected:
  // Five encoder tokens: three cross blocks of two. Five prompt tokens: three self blocks.
  static std::unique_ptr<SequenceGroup> group(const char* id, int64_t seq_id, int source = 0,
                                              int prompt = 0, int prompt_len = 5) {
    return make_group({.request_id = id,
                       .seq_ids = {seq_id},
                       .encoder_len = 5,
                       .prompt_len = prompt_len,
                       .source = source,
                       .prompt = prompt});
  }
  // The group's prompt is computed.
  BlockManager::Start compute(SequenceGroup& g) {
    const BlockManager::Start start = blocks_.allocate(g);
    for (const auto& seq : g.seqs()) {
      seq->advance(seq->num_uncomputed_tokens());
      blocks_.cache_full_blocks(g, *seq);
    }
    blocks_.check_integrity();
    return start;
  }
  void release(const SequenceGroup& g) {
    for (const auto& seq : g.seqs()) blocks_.free(*seq);
    blocks_.tables().free_cross(g);
    blocks_.check_integrity();
  }
  int free_blocks() const { return blocks_.device().num_free(); }

  BlockManager blocks_{2, 12, 10, 0.0, {.encoder = true, .prefix = true}};
};

TEST_F(Caches, EqualSourcesShareACrossTable) {
  const auto a = group("a", 1), b = group("b", 2), c = group("c", 3, /*source=*/1);
  EXPECT_FALSE(blocks_.finds_encoder(*a));
  EXPECT_FALSE(blocks_.allocate(*a).encoder_found);
  EXPECT_EQ(free_blocks(), 12 - 6);
  EXPECT_TRUE(blocks_.finds_encoder(*b));
  EXPECT_FALSE(blocks_.finds_encoder(*c));
  EXPECT_EQ(blocks_.blocks_to_start(*b), 3) << "what is found is in use already";
  EXPECT_TRUE(blocks_.allocate(*b).encoder_found);
  EXPECT_EQ(free_blocks(), 12 - 6 - 3);
  EXPECT_EQ(blocks_.tables().cross(*a), blocks_.tables().cross(*b));
  EXPECT_EQ(blocks_.tables().num_blocks(*b), 6);

  release(*a);
  EXPECT_EQ(free_blocks(), 12 - 6);
  release(*b);
  EXPECT_EQ(free_blocks(), 12) << "idle blocks are free";
  EXPECT_EQ(blocks_.device().num_idle(), 3);
  EXPECT_EQ(blocks_.blocks_to_start(*b), 6) << "what is found is idle";
  EXPECT_EQ(blocks_.cache_stats().encoder_queries, 2);
  EXPECT_EQ(blocks_.cache_stats().encoder_hits, 1);
  EXPECT_EQ(blocks_.cache_stats().encoder_hit_tokens, 5);
}

// Requests share what they have under the same salt, and with those without one nothing.
TEST_F(Caches, SaltsKeepRequestsApart) {
  const auto salted = [](const char* id, int64_t seq_id, const char* salt) {
    return make_group({.request_id = id,
                       .seq_ids = {seq_id},
                       .encoder_len = 3,
                       .prompt_len = 3,
                       .cache_salt = salt});
  };
  const auto plain = salted("a", 1, ""), x = salted("b", 2, "x"), y = salted("c", 3, "y"),
             again = salted("d", 4, "x");
  EXPECT_FALSE(compute(*plain).encoder_found);
  for (const auto* g : {&x, &y}) {
    const BlockManager::Start start = compute(**g);
    EXPECT_FALSE(start.encoder_found);
    EXPECT_THAT(start.computed_tokens, ElementsAre(0));
  }
  EXPECT_TRUE(blocks_.finds_encoder(*again));
  release(*x);
  const BlockManager::Start start = blocks_.allocate(*again);
  EXPECT_TRUE(start.encoder_found);
  EXPECT_THAT(start.computed_tokens, ElementsAre(2));
}

TEST_F(Caches, AdaptersKeepRequestsApart) {
  const auto adapted = [](const char* id, int64_t seq_id, uint64_t adapter) {
    return make_group({.request_id = id,
                       .seq_ids = {seq_id},
                       .encoder_len = 3,
                       .prompt_len = 3,
                       .adapter = adapter});
  };
  const auto plain = adapted("a", 1, 0), x = adapted("b", 2, 1), y = adapted("c", 3, 2),
             again = adapted("d", 4, 1);
  for (const auto* g : {&plain, &x, &y}) {
    const BlockManager::Start start = compute(**g);
    EXPECT_FALSE(start.encoder_found);
    EXPECT_THAT(start.computed_tokens, ElementsAre(0));
  }
  EXPECT_TRUE(blocks_.finds_encoder(*again));
}

TEST_F(Caches, PrefixesEndBeforeTheLastToken) {
  const auto a = group("a", 1);
  EXPECT_THAT(compute(*a).computed_tokens, ElementsAre(0));
  // Equal prompts of five tokens share two blocks; one of four has to compute its last token.
  const auto b = group("b", 2), c = group("c", 3, 0, 0, /*prompt_len=*/4);
  EXPECT_EQ(blocks_.blocks_to_start(*b), 1);
  EXPECT_THAT(blocks_.allocate(*b).computed_tokens, ElementsAre(4));
  EXPECT_EQ(blocks_.blocks_to_start(*c), 1);
  EXPECT_THAT(blocks_.allocate(*c).computed_tokens, ElementsAre(2));
  EXPECT_EQ(free_blocks(), 12 - 6 - 1 - 1);
  EXPECT_EQ(blocks_.cache_stats().prefix_queries, 5 + 5 + 4);
  EXPECT_EQ(blocks_.cache_stats().prefix_hits, 4 + 2);
  blocks_.check_integrity();
}

TEST_F(Caches, PrefixesOfOtherSourcesAndTokensAreNotFound) {
  const auto a = group("a", 1, 0, 0, 7);
  compute(*a);
  EXPECT_EQ(blocks_.blocks_to_start(*group("b", 2, /*source=*/1, 0, 7)), 3 + 4);
  // Tokens differ from the fifth one on.
  EXPECT_EQ(blocks_.blocks_to_start(*group("b", 2, 0, /*prompt=*/1, 7)), 4 - 2);
  const auto c = group("c", 3, 0, 0, 7);
  EXPECT_EQ(blocks_.blocks_to_start(*c), 4 - 3);
}

TEST_F(Caches, OnlyComputedTokensAreFound) {
  const auto a = group("a", 1), b = group("b", 2);
  blocks_.allocate(*a);
  blocks_.cache_full_blocks(*a, *a->find(1));
  EXPECT_EQ(blocks_.blocks_to_start(*b), 3);
  a->find(1)->advance(3);
  blocks_.cache_full_blocks(*a, *a->find(1));
  EXPECT_EQ(blocks_.blocks_to_start(*b), 2) << "one full block";
}

TEST_F(Caches, PromptLogprobsNeedEveryToken) {
  const auto a = group("a", 1);
  compute(*a);
  const auto plain = group("b", 2);
  SamplingParams params = plain->params();
  params.set_prompt_logprobs(1);
  EncoderDecoderInputs inputs;
  for (const int32_t id : plain->encoder_seq().tokens()) inputs.add_encoder_prompt_token_ids(id);
  for (const int32_t id : plain->find(2)->tokens()) inputs.add_prompt_token_ids(id);
  std::vector<std::unique_ptr<Sequence>> seqs;
  seqs.push_back(std::make_unique<Sequence>(2, inputs));
  const SequenceGroup b("b", std::move(seqs), std::make_unique<Sequence>(9, inputs, false), params,
                        0);
  const BlockManager::Start start = blocks_.allocate(b);
  EXPECT_THAT(start.computed_tokens, ElementsAre(0));
  EXPECT_TRUE(start.encoder_found);
}

TEST_F(Caches, UnusedBlocksGoFirstThenTheOldestIdleOnes) {
  const auto a = group("a", 1, /*source=*/1), b = group("b", 2, /*source=*/2);
  compute(*a);
  release(*a);
  compute(*b);
  release(*b);
  // Each left three cross and two self blocks.
  EXPECT_EQ(blocks_.device().num_idle(), 10);
  EXPECT_EQ(free_blocks(), 12);
  const auto c = group("c", 3, /*source=*/3, 0, /*prompt_len=*/1);
  blocks_.allocate(*c);  // four blocks: two unused, and a's two self blocks
  EXPECT_EQ(blocks_.cache_stats().evicted_blocks, 2);
  EXPECT_TRUE(blocks_.finds_encoder(*a));
  EXPECT_EQ(blocks_.blocks_to_start(*a), 6);
  EXPECT_THAT(blocks_.allocate(*b).computed_tokens, ElementsAre(4));
  release(*b);
  release(*c);
  blocks_.check_integrity();
  // One block of a's cross table goes, and with it the table.
  const auto d = group("d", 4, /*source=*/4, 0, /*prompt_len=*/2);
  blocks_.allocate(*d);
  EXPECT_FALSE(blocks_.finds_encoder(*a));
  EXPECT_TRUE(blocks_.finds_encoder(*b));
  EXPECT_TRUE(blocks_.finds_encoder(*c));
  blocks_.check_integrity();
}

TEST_F(Caches, WhatIsFoundIsNotEvictedForTheRest) {
  const auto a = group("a", 1);
  compute(*a);
  release(*a);
  // It needs the whole pool: five blocks that are found, one unused; then seven more.
  const auto b = group("b", 2, 0, 0, /*prompt_len=*/18);
  ASSERT_EQ(blocks_.can_allocate(*b), AllocStatus::kOk);
  const BlockManager::Start start = blocks_.allocate(*b);
  EXPECT_TRUE(start.encoder_found);
  EXPECT_THAT(start.computed_tokens, ElementsAre(4));
  EXPECT_EQ(free_blocks(), 0);
  blocks_.check_integrity();
}

TEST_F(Caches, SwappingCopiesAndLeavesTheCacheAlone) {
  const auto a = group("a", 1), b = group("b", 2);
  compute(*a);
  compute(*b);
  EXPECT_EQ(free_blocks(), 12 - 7);
  EXPECT_EQ(blocks_.swap_out(*b).size(), 6u);
  EXPECT_EQ(free_blocks(), 12 - 6) << "five of its blocks are a's, too";
  EXPECT_EQ(blocks_.host().num_free(), 10 - 6);
  EXPECT_EQ(blocks_.swap_in(*b).size(), 6u);
  EXPECT_EQ(free_blocks(), 0) << "it has its own now";
  blocks_.cache_full_blocks(*b, *b->find(2));
  blocks_.check_integrity();
  release(*a);
  EXPECT_EQ(blocks_.device().num_idle(), 5);
  release(*b);
  EXPECT_EQ(blocks_.device().num_idle(), 5);
  EXPECT_EQ(free_blocks(), 12);
}

// What was evicted while a group was on the host is cached again from its own blocks.
TEST_F(Caches, FullBlocksAreCachedAnewAfterASwap) {
  const auto a = group("a", 1);
  compute(*a);
  blocks_.swap_out(*a);
  const auto big = group("b", 2, 1, 0, /*prompt_len=*/18);
  blocks_.allocate(*big);
  EXPECT_EQ(blocks_.cache_stats().evicted_blocks, 5);
  release(*big);
  blocks_.swap_in(*a);
  blocks_.cache_full_blocks(*a, *a->find(1));
  const auto c = group("c", 3);
  EXPECT_THAT(blocks_.allocate(*c).computed_tokens, ElementsAre(4));
  blocks_.check_integrity();
}

TEST_F(Caches, SequencesOfAGroupFindTheSame) {
  const auto a = group("a", 1);
  compute(*a);
  release(*a);
  const auto b =
      make_group({.request_id = "b", .seq_ids = {2, 3}, .encoder_len = 5, .prompt_len = 5});
  EXPECT_EQ(blocks_.blocks_to_start(*b), 3 + 2 + 2) << "the idle blocks once";
  EXPECT_THAT(blocks_.allocate(*b).computed_tokens, ElementsAre(4, 4));
  EXPECT_EQ(free_blocks(), 12 - 7);
  b->find(2)->advance(4);
  EXPECT_EQ(blocks_.blocks_to_append(*b->find(2), 5), 0) << "nobody writes to what is shared";
  blocks_.check_integrity();
}

TEST_F(Caches, ResetForgetsAll) {
  const auto a = group("a", 1);
  compute(*a);
  blocks_.reset();
  blocks_.check_integrity();
  EXPECT_EQ(free_blocks(), 12);
  EXPECT_EQ(blocks_.device().num_idle(), 0);
  EXPECT_FALSE(blocks_.finds_encoder(*a));
  EXPECT_EQ(blocks_.blocks_to_start(*a), 6);
}

TEST_F(Caches, OffTheyHoldNothing) {
  BlockManager off(2, 12, 10, 0.0);
  const auto a = group("a", 1), b = group("b", 2);
  off.allocate(*a);
  a->find(1)->advance(5);
  off.cache_full_blocks(*a, *a->find(1));
  EXPECT_FALSE(off.finds_encoder(*b));
  EXPECT_EQ(off.blocks_to_start(*b), 6);
  for (int32_t block = 0; block < 12; ++block) EXPECT_FALSE(off.pools().device().cached(block));
  EXPECT_EQ(off.cache_stats().encoder_queries, 0);
  EXPECT_EQ(off.cache_stats().prefix_queries, 0);
  off.check_integrity();
}

TEST(BlockPool, IdleBlocksStandInALine) {
  BlockPool pool(4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pool.allocate(), i);
  for (const int32_t b : {1, 3, 0}) pool.set_cached(b);
  for (const int32_t b : {3, 2, 1, 0}) pool.release(b);
  pool.check_integrity({0, 0, 0, 0});
  EXPECT_EQ(pool.num_free(), 4);
  EXPECT_EQ(pool.num_idle(), 3);
  EXPECT_EQ(pool.num_unused(), 1);
  EXPECT_EQ(pool.oldest_idle(), 3);
  pool.add_ref(1);  // from the middle
  pool.check_integrity({0, 1, 0, 0});
  pool.clear_cached(3);
  EXPECT_EQ(pool.oldest_idle(), 0);
  EXPECT_EQ(pool.allocate(), 3) << "unused last, given out first";
  pool.clear_cached(1);
  pool.release(1);
  pool.check_integrity({0, 0, 0, 1});
  EXPECT_EQ(pool.num_idle(), 1);
  EXPECT_EQ(pool.num_unused(), 2);
}

}  // namespace
}  // namespace tandem
