// Groups that find their encoder's result or their prompt in the caches, case by case. The fake
// worker behind the scheduler checks every key that they read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/run_ahead_loop.h"
#include "tests/support/scheduling/scheduler_cases.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing_support::EngineLoop;
using testing_support::RunAheadLoop;
using testing_support::work;

SchedulerConfig cached(int budget, int blocks, int depth = 1) {
  SchedulerConfig c = testing_support::config(budget, blocks);
  c.enable_encoder_cache = c.enable_prefix_caching = true;
  c.max_steps_in_flight = depth;
  return c;
}
const CacheStats& stats(const Scheduler& scheduler) {
  return scheduler.block_manager().cache_stats();
}

TEST(SchedulerCaches, TheSecondRequestNeedsNoEncoder) {
  EngineLoop loop(cached(100, 40));
  loop.add({.request_id = "a", .seq_ids = {1}, .encoder_len = 9, .prompt_len = 5, .max_tokens = 2});
  EXPECT_THAT(work(loop.step()), ElementsAre("a:e9", "a:5"));
  loop.run(10);
  loop.add({.request_id = "b", .seq_ids = {2}, .encoder_len = 9, .prompt_len = 5, .max_tokens = 2});
  const proto::StepInput step = loop.step();
  EXPECT_THAT(work(step), ElementsAre("b:1"));
  ASSERT_EQ(step.groups_size(), 1);
  const auto& group = step.groups(0);
  EXPECT_FALSE(group.compute_encoder());
  EXPECT_EQ(group.encoder_seq_data().num_computed_tokens(), 9);
  EXPECT_EQ(group.encoder_seq_data().token_chunk_size(), 0);
  EXPECT_EQ(group.seq_data(0).num_computed_tokens(), 4);
  loop.run(10);
  EXPECT_EQ(loop.scheduler().block_manager().device().num_free(), 40);
  EXPECT_EQ(stats(loop.scheduler()).encoder_hits, 1);
  EXPECT_EQ(stats(loop.scheduler()).prefix_hits, 4);
}

TEST(SchedulerCaches, RequestsOfOneStepShareTheEncoder) {
  EngineLoop loop(cached(100, 40));
  loop.add({.request_id = "a", .seq_ids = {1}, .encoder_len = 9, .prompt_len = 3});
  loop.add({.request_id = "b", .seq_ids = {2}, .encoder_len = 9, .prompt_len = 3});
  // Prompts are found from the next step on.
  EXPECT_THAT(work(loop.step()), ElementsAre("a:e9", "a:3", "b:3"));
  loop.run(20);
}

// It would need a turn, and the budget has no room for it; found, it needs neither.
TEST(SchedulerCaches, AnEncoderThatIsFoundCostsNoBudget) {
  EngineLoop loop(cached(9, 40));
  loop.add({.request_id = "a", .seq_ids = {1}, .encoder_len = 9, .prompt_len = 2, .max_tokens = 9});
  EXPECT_THAT(work(loop.step()), ElementsAre("a:e9"));
  loop.add({.request_id = "b", .seq_ids = {2}, .encoder_len = 9, .prompt_len = 2, .max_tokens = 9});
  EXPECT_THAT(work(loop.step()), ElementsAre("b:2", "a:2"));
  loop.run(20);
  EXPECT_EQ(loop.rules().turns(), 0);
}

TEST(SchedulerCaches, WhatIsStillInFlightMayBeShared) {
  RunAheadLoop loop(cached(100, 40, 3));
  loop.add({.request_id = "a", .seq_ids = {1}, .encoder_len = 9, .prompt_len = 5});
  loop.schedule();
  loop.add({.request_id = "b", .seq_ids = {2}, .encoder_len = 9, .prompt_len = 5});
  EXPECT_THAT(work(loop.schedule()), ElementsAre("b:1", "a:1"));
  // Its owner goes before anything has been computed.
  EXPECT_TRUE(loop.abort("a"));
  loop.add({.request_id = "c", .seq_ids = {3}, .encoder_len = 9, .prompt_len = 5});
  EXPECT_THAT(work(loop.schedule()), ElementsAre("c:1", "b:1"));
  while (loop.can_execute()) loop.execute();
  while (loop.can_deliver()) loop.deliver();
  loop.scheduler().check_integrity();
}

// Recomputation finds what the group left behind, its own tokens included.
TEST(SchedulerCaches, APreemptedGroupFindsItsOwnBlocks) {
  SchedulerConfig c = testing_support::tight(PreemptionMode::kRecompute, 0);
  c.enable_encoder_cache = c.enable_prefix_caching = true;
  EngineLoop loop(c);
  loop.add({.request_id = "a", .seq_ids = {1}, .encoder_len = 3, .max_tokens = 5, .source = 1});
  loop.add({.request_id = "b", .seq_ids = {2}, .encoder_len = 3, .max_tokens = 5, .source = 2});
  int encoders = 0, decoder_tokens = 0;
  for (const proto::StepInput& step : loop.run(40)) {
    for (const auto& group : step.groups()) {
      encoders += group.compute_encoder();
      for (const auto& seq : group.seq_data()) decoder_tokens += seq.token_chunk_size();
    }
    for (const auto& group : step.deltas())
      for (const auto& seq : group.seqs()) decoder_tokens += seq.token_chunk_size();
  }
  EXPECT_GT(loop.scheduler().num_preemptions(), 0);
  // Without caches each preemption costs an encoder, and the tokens again.
  EXPECT_LT(encoders, 2 + loop.scheduler().num_preemptions());
  EXPECT_LE(decoder_tokens, 2 * (2 + 4) + 4);
}

// A pool that holds one request at a time: every source evicts the one before it, and is computed
// anew.
TEST(SchedulerCaches, ATinyPoolEvicts) {
  EngineLoop loop(cached(100, 8));
  for (int i = 0; i < 12; ++i)
    loop.add({.request_id = std::to_string(i),
              .seq_ids = {i},
              .encoder_len = 8,
              .prompt_len = 4,
              .max_tokens = 4,
              .source = i % 2});
  int encoders = 0;
  for (const proto::StepInput& step : loop.run(200))
    for (const auto& group : step.groups()) encoders += group.compute_encoder();
  EXPECT_EQ(encoders, 12);
  EXPECT_GT(stats(loop.scheduler()).evicted_blocks, 20);
  EXPECT_EQ(loop.scheduler().block_manager().device().num_free(), 8);
}

TEST(SchedulerCaches, NobodyOvertakesByFindingMore) {
  EngineLoop loop(cached(100, 12));
  loop.add({.request_id = "a", .seq_ids = {1}, .encoder_len = 8, .prompt_len = 2, .source = 1});
  loop.step();
  loop.add({.request_id = "b", .seq_ids = {2}, .encoder_len = 16, .prompt_len = 2, .source = 2});
  loop.add({.request_id = "c", .seq_ids = {3}, .encoder_len = 8, .prompt_len = 2, .source = 1});
  EXPECT_THAT(work(loop.step()), ElementsAre("a:1")) << "c would fit, but b is before it";
  loop.run(30);
}

}  // namespace
}  // namespace tandem
