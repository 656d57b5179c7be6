// The scheduler's policy, case by case. EngineLoop checks the rules and the KV memory on every
// step.

#include "runtime/scheduling/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/scheduling/scheduler_cases.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing_support::add_two;
using testing_support::config;
using testing_support::EngineLoop;
using testing_support::GroupSpec;
using testing_support::make_group;
using testing_support::tight;
using testing_support::work;

// --- Budget --------------------------------------------------------------------------------------

TEST(Scheduler, EncodersAndPromptsShareTheBudget) {
  EngineLoop loop(config(10, 30));
  loop.add({.request_id = "a", .seq_ids = {1}, .encoder_len = 3, .prompt_len = 2});
  loop.add({.request_id = "b", .seq_ids = {2}, .encoder_len = 4, .prompt_len = 5});
  loop.add({.request_id = "c", .seq_ids = {3}, .encoder_len = 2, .prompt_len = 2});
  EXPECT_THAT(work(loop.step()), ElementsAre("a:e3", "a:2", "b:e4", "b:1"));
  EXPECT_THAT(work(loop.step()), ElementsAre("c:e2", "c:2", "a:1", "b:4"));
  EXPECT_THAT(work(loop.step()), ElementsAre("a:1", "b:1", "c:1"));
  loop.run(10);
}

TEST(Scheduler, ABudgetOfOneCutsEverythingAsFineAsTheRulesAllow) {
  EngineLoop loop(config(1, 40));
  for (int r = 0; r < 3; ++r)
    loop.add({.request_id = std::to_string(r),
              .seq_ids = {r},
              .encoder_len = 1 + 4 * r,
              .prompt_len = 3,
              .max_tokens = 2});
  const auto steps = loop.run(30);
  std::vector<std::string> all;
  for (const auto& step : steps) {
    ASSERT_THAT(work(step), SizeIs(1));
    all.push_back(work(step)[0]);
  }
  EXPECT_THAT(all, ElementsAre("0:e1", "0:1", "0:1", "0:1", "0:1", "1:e5", "1:1", "1:1", "1:1",
                               "1:1", "2:e9", "2:1", "2:1", "2:1", "2:1"));
}

TEST(Scheduler, ALongEncoderHasAStepOfItsOwnAndRunningStreamsTheNextOne) {
  EngineLoop loop(config(8, 200));
  loop.add({.request_id = "a", .seq_ids = {0}, .max_tokens = 6});
  loop.step();
  for (const char* id : {"b", "c"})
    loop.add({.request_id = id, .seq_ids = {id[0]}, .encoder_len = 9, .max_tokens = 6});
  EXPECT_THAT(work(loop.step()), ElementsAre("b:e9"));
  EXPECT_THAT(work(loop.step()), ElementsAre("a:1", "b:2"));
  EXPECT_THAT(work(loop.step()), ElementsAre("c:e9"));
  EXPECT_THAT(work(loop.step()), ElementsAre("a:1", "b:1", "c:2"));
  loop.run(20);
}

TEST(Scheduler, AnEncoderThatFitsTheBudgetButNotBesideTheDecodesTakesATurnToo) {
  EngineLoop loop(config(4, 200));
  for (const char* id : {"a", "b", "c"})
    loop.add(
        {.request_id = id, .seq_ids = {id[0]}, .encoder_len = 1, .prompt_len = 1, .max_tokens = 8});
  EXPECT_THAT(work(loop.step()), ElementsAre("a:e1", "a:1", "b:e1", "b:1"));
  EXPECT_THAT(work(loop.step()), ElementsAre("c:e1", "c:1", "a:1", "b:1"));
  loop.add({.request_id = "d", .seq_ids = {'d'}, .encoder_len = 3, .max_tokens = 8});
  EXPECT_THAT(work(loop.step()), ElementsAre("d:e3", "a:1"));
  EXPECT_THAT(work(loop.step()), ElementsAre("a:1", "b:1", "c:1", "d:1"));
  EXPECT_THAT(loop.rules().turns(), 1);
  loop.run(40);
}

// A stream goes on while long documents keep coming, and they come in while it goes on.
TEST(Scheduler, NeitherStreamsNorLongEncodersStarve) {
  EngineLoop loop({.max_num_seqs = 100,
                   .max_num_batched_tokens = 16,
                   .block_size = 2,
                   .num_device_blocks = 2000});
  loop.add({.request_id = "stream", .seq_ids = {0}, .max_tokens = 40});
  loop.step();
  int waited = 0, encoders = 0;
  for (int i = 1; loop.scheduler().find("stream") != nullptr; ++i) {
    ASSERT_LT(i, 200);
    loop.add({.request_id = "long " + std::to_string(i),
              .seq_ids = {i},
              .encoder_len = 50,
              .max_tokens = 2});
    const auto done = work(loop.step());
    const bool streamed = std::find(done.begin(), done.end(), "stream:1") != done.end();
    waited = streamed ? 0 : waited + 1;
    ASSERT_LE(waited, 1) << "the stream stalls for more than one step";
    encoders += !streamed;
  }
  EXPECT_GE(encoders, 35);
}

TEST(Scheduler, SmallRequestsDoNotStarveABigOne) {
  // The big one needs 42 of 50 blocks; small ones, of 3, keep coming.
  EngineLoop loop({.max_num_seqs = 100,
                   .max_num_batched_tokens = 64,
                   .block_size = 1,
                   .num_device_blocks = 50});
  int64_t next = 1;
  const auto add_small = [&] {
    loop.add({.request_id = "small " + std::to_string(next),
              .seq_ids = {next},
              .encoder_len = 2,
              .prompt_len = 1,
              .max_tokens = 4});
    ++next;
  };
  for (int i = 0; i < 10; ++i) add_small();
  loop.step();
  loop.add({.request_id = "big", .seq_ids = {0}, .encoder_len = 40, .prompt_len = 2});
  int steps = 0;
  while (!loop.scheduler().find("big")->encoder_computed()) {
    add_small();
    loop.step();
    ASSERT_LT(++steps, 20);
  }
}

TEST(Scheduler, MaxNumSeqsBoundsWhatRuns) {
  auto few = config(100, 200);
  few.max_num_seqs = 3;
  EngineLoop loop(few);
  for (int r = 0; r < 3; ++r)
    loop.add({.request_id = std::to_string(r), .seq_ids = {2 * r, 2 * r + 1}, .max_tokens = 2});
  EXPECT_THAT(work(loop.step()), ElementsAre("0:e3", "0:2", "0:2"));
  EXPECT_THAT(work(loop.step()), ElementsAre("0:1", "0:1"));
  EXPECT_THAT(work(loop.step()), ElementsAre("1:e3", "1:2", "1:2"));
  // A seat that a finished sequence leaves is not enough for two.
  loop.scheduler().finish_sequence("1", 2, SequenceStatus::kFinishedStopped);
  EXPECT_THAT(work(loop.step()), ElementsAre("2:e3", "2:2", "2:2", "1:1"));
  loop.run(5);
}

TEST(Scheduler, OrderIsPriorityThenArrival) {
  auto one = config(100, 200);
  one.max_num_seqs = 1;
  EngineLoop loop(one);
  const auto add = [&](const char* id, double arrival, int priority) {
    loop.add({.request_id = id,
              .seq_ids = {id[0]},
              .max_tokens = 1,
              .arrival_time = arrival,
              .priority = priority});
  };
  add("e", 1, 1);
  add("c", 5, 0);
  add("d", 5, 0);
  add("b", 4, 0);
  add("a", 9, -1);
  std::vector<std::string> order;
  for (const auto& step : loop.run(10)) order.push_back(step.groups(0).request_id());
  EXPECT_THAT(order, ElementsAre("a", "b", "c", "d", "e"));
}

// --- Preemption ----------------------------------------------------------------------------------

TEST(Scheduler, RecomputesTheLastInOrder) {
  EngineLoop loop(tight(PreemptionMode::kRecompute, 100));
  add_two(loop);
  loop.add({.request_id = "c", .seq_ids = {3}, .encoder_len = 3, .max_tokens = 2});
  loop.step();
  loop.step();
  EXPECT_EQ(loop.scheduler().num_running(), 2);
  EXPECT_EQ(loop.scheduler().block_manager().device().num_free(), 0);
  const auto step = loop.step();
  EXPECT_THAT(work(step), ElementsAre("a:1"));
  EXPECT_EQ(loop.scheduler().num_preemptions(), 1);
  EXPECT_EQ(loop.scheduler().num_swapped(), 0);
  EXPECT_EQ(loop.scheduler().num_waiting(), 2);
  const SequenceGroup& b = *loop.scheduler().find("b");
  EXPECT_EQ(b.num_preemptions, 1);
  EXPECT_EQ(b.find(2)->output_len(), 2) << "what was emitted stays";
  EXPECT_FALSE(b.encoder_computed());

  // It comes back before c, in full, with its encoder and the emitted tokens to compute again.
  const proto::StepInput back = loop.run_until_full_metadata();
  ASSERT_EQ(back.groups(0).request_id(), "b");
  EXPECT_TRUE(back.groups(0).compute_encoder());
  EXPECT_EQ(back.groups(0).encoder_seq_data().num_computed_tokens(), 0);
  EXPECT_EQ(back.groups(0).seq_data(0).num_computed_tokens(), 0);
  EXPECT_THAT(back.groups(0).seq_data(0).output_token_ids(), SizeIs(2));
  EXPECT_EQ(back.groups(0).seq_data(0).token_chunk_size(), 4);
  loop.run(20);
}

TEST(Scheduler, SwapsTheLastInOrder) {
  EngineLoop loop(tight(PreemptionMode::kSwap, 100));
  add_two(loop);
  loop.step();
  loop.step();
  const auto step = loop.step();
  EXPECT_THAT(work(step), ElementsAre("a:1"));
  EXPECT_THAT(step.swap_out(), SizeIs(6)) << "3 cross and 3 self blocks";
  EXPECT_EQ(loop.scheduler().num_swapped(), 1);
  EXPECT_EQ(loop.scheduler().find("b")->find(2)->status(), SequenceStatus::kSwapped);
  EXPECT_EQ(loop.scheduler().block_manager().host().num_free(), 94);

  const proto::StepInput back = loop.run_until_full_metadata();
  EXPECT_THAT(back.swap_in(), SizeIs(6));
  EXPECT_FALSE(back.groups(0).compute_encoder());
  EXPECT_FALSE(back.groups(0).is_prompt());
  EXPECT_EQ(back.groups(0).encoder_seq_data().num_computed_tokens(), 3);
  EXPECT_EQ(back.groups(0).seq_data(0).num_computed_tokens(), 3);
  EXPECT_EQ(back.groups(0).seq_data(0).token_chunk_size(), 1);
  loop.run(20);
  EXPECT_EQ(loop.scheduler().num_preemptions(), 1);
}

TEST(Scheduler, RecomputesWhenTheHostPoolIsTooSmall) {
  EngineLoop loop(tight(PreemptionMode::kSwap, 5));
  add_two(loop);
  for (int i = 0; i < 3; ++i) loop.step();
  EXPECT_EQ(loop.scheduler().num_preemptions(), 1);
  EXPECT_EQ(loop.scheduler().num_swapped(), 0);
  EXPECT_EQ(loop.scheduler().num_waiting(), 1);
  loop.run(20);
}

TEST(Scheduler, TakesTheCheaperWay) {
  // b has 3 encoder and 3 decoder tokens to compute again, or 6 blocks of 1 token to move.
  const auto swapped = [](double cost) {
    auto c = tight(PreemptionMode::kAuto, 100);
    c.swap_cost = cost;
    EngineLoop loop(c);
    add_two(loop);
    for (int i = 0; i < 3; ++i) loop.step();
    EXPECT_EQ(loop.scheduler().num_preemptions(), 1);
    return loop.scheduler().num_swapped() == 1;
  };
  EXPECT_TRUE(swapped(0.9));
  EXPECT_FALSE(swapped(1.1));
}

TEST(Scheduler, TheLastInOrderWaitsWithItsBlocks) {
  EngineLoop loop(config(100, 12, 1));
  // a will need 3 + 3 blocks at most, b up to 3 + 6: b stalls until a ends.
  loop.add({.request_id = "a", .seq_ids = {1}, .encoder_len = 3, .prompt_len = 2, .max_tokens = 2});
  loop.add({.request_id = "b", .seq_ids = {2}, .encoder_len = 3, .prompt_len = 3, .max_tokens = 4});
  EXPECT_THAT(work(loop.step()), ElementsAre("a:e3", "a:2", "b:e3", "b:3"));
  EXPECT_EQ(loop.scheduler().block_manager().device().num_free(), 1);
  EXPECT_THAT(work(loop.step()), ElementsAre("a:1")) << "the last block goes to the first";
  EXPECT_THAT(work(loop.step()), ElementsAre("b:1"));
  loop.run(20);
  EXPECT_EQ(loop.scheduler().num_preemptions(), 0);
}

// After c has ended there are four blocks free, which is what b needs; but a would soon take them
// back.
TEST(Scheduler, APreemptedGroupComesBackOnlyWithRoomToSpare) {
  EngineLoop loop(config(100, 9, 1));
  const auto add = [&](const char* id, int max_tokens) {
    loop.add({.request_id = id, .seq_ids = {id[0]}, .encoder_len = 1, .max_tokens = max_tokens});
  };
  add("c", 2);
  add("a", 7);
  add("b", 5);
  EXPECT_THAT(work(loop.step()), ElementsAre("c:e1", "c:2", "a:e1", "a:2", "b:e1", "b:2"));
  EXPECT_THAT(work(loop.step()), ElementsAre("c:1", "a:1"));
  EXPECT_EQ(loop.scheduler().find("b")->num_preemptions, 1);
  EXPECT_THAT(work(loop.step()), ElementsAre("a:1"));
  EXPECT_EQ(loop.scheduler().block_manager().device().num_free(), 4);
  EXPECT_EQ(loop.scheduler().block_manager().blocks_to_start(*loop.scheduler().find("b")), 4);
  loop.run(20);
  EXPECT_EQ(loop.scheduler().num_preemptions(), 1);
}

TEST(Scheduler, PriorityDecidesWhoIsPreempted) {
  EngineLoop loop(tight(PreemptionMode::kRecompute, 0));
  loop.add({.request_id = "low", .seq_ids = {1}, .max_tokens = 5, .priority = 1});
  loop.add({.request_id = "high", .seq_ids = {2}, .max_tokens = 5, .arrival_time = 9});
  for (int i = 0; i < 3; ++i) loop.step();
  EXPECT_EQ(loop.scheduler().find("low")->num_preemptions, 1);
  EXPECT_EQ(loop.scheduler().find("high")->num_preemptions, 0);
  loop.run(20);
}

// Preemption does not go round in circles: the first in order always gets on.
TEST(Scheduler, ManyGroupsInAPoolForOneAllFinish) {
  for (const PreemptionMode mode :
       {PreemptionMode::kAuto, PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
    for (const int host_blocks : {0, 15, 500}) {
      auto c = config(16, 14, 1);
      c.preemption = mode;
      c.num_host_blocks = host_blocks;
      EngineLoop loop(c);
      for (int r = 0; r < 12; ++r)
        loop.add({.request_id = std::to_string(r),
                  .seq_ids = {r},
                  .encoder_len = 1 + r % 4,
                  .prompt_len = 1,
                  .max_tokens = 10});
      loop.run(12 * 2 * 12);
      EXPECT_GT(loop.scheduler().num_preemptions(), 0);
    }
  }
}

}  // namespace
}  // namespace tandem
