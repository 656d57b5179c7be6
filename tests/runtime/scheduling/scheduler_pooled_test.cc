// Groups whose encoder's output is pooled: they share steps and budget, wait for no blocks, and are
// not preempted. The random tests of the scheduler have them too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scheduling/run_ahead_loop.h"
#include "tests/support/scheduling/scheduler_cases.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using namespace testing_support;

GroupSpec pooled(const std::string& id, int64_t seq_id, int encoder_len, double arrival = 1) {
  return {.request_id = id,
          .seq_ids = {seq_id},
          .encoder_len = encoder_len,
          .arrival_time = arrival,
          .pooled = true};
}

TEST(SchedulerPooled, SharesTheStepAndItsBudget) {
  EngineLoop loop(config(/*budget=*/10, /*blocks=*/20));
  loop.add({.request_id = "a", .seq_ids = {1}, .encoder_len = 3, .prompt_len = 2});
  loop.add(pooled("p", 2, 4));
  loop.add(pooled("q", 3, 4, 2));
  loop.add(pooled("r", 4, 1, 3));
  EXPECT_THAT(work(loop.step()), ElementsAre("a:e3", "a:2", "p:e4")) << "nobody overtakes q";
  EXPECT_EQ(loop.scheduler().find("p"), nullptr) << "one step is all it takes";
  EXPECT_THAT(work(loop.step()), ElementsAre("q:e4", "r:e1", "a:1"));
  EXPECT_EQ(loop.num_pooled(), 3);
}

TEST(SchedulerPooled, MayBeLongerThanTheBudgetAndThePool) {
  auto c = config(/*budget=*/10, /*blocks=*/4);
  c.max_steps_in_flight = 2;
  RunAheadLoop loop(c);
  loop.add(pooled("p", 1, 50));
  loop.add(pooled("q", 2, 60));
  EXPECT_THAT(work(loop.schedule()), ElementsAre("p:e50"));
  EXPECT_THAT(work(loop.schedule()), ElementsAre("q:e60")) << "p leaves nothing to wait for";
  EXPECT_EQ(loop.scheduler().block_manager().device().num_free(), 4);
  for (int i = 0; i < 2; ++i) loop.execute();
  for (int i = 0; i < 2; ++i) loop.deliver();
  loop.free_finished();
  EXPECT_FALSE(loop.scheduler().has_unfinished());
  EXPECT_EQ(loop.num_pooled(), 2);
}

// The last group in order is one that is pooled: preempting it would free nothing.
TEST(SchedulerPooled, IsNotPreempted) {
  auto c = tight(PreemptionMode::kRecompute, /*host_blocks=*/0);
  c.max_steps_in_flight = 2;
  RunAheadLoop loop(c);
  loop.add({.request_id = "a", .seq_ids = {1}, .encoder_len = 3, .prompt_len = 2, .max_tokens = 5});
  loop.add({.request_id = "b", .seq_ids = {2}, .encoder_len = 3, .prompt_len = 2, .max_tokens = 5});
  loop.schedule();
  loop.execute();
  loop.deliver();
  loop.add(pooled("p", 3, 7));
  EXPECT_THAT(work(loop.schedule()), ElementsAre("p:e7", "a:1", "b:1"));
  EXPECT_THAT(work(loop.schedule()), ElementsAre("a:1"));
  EXPECT_EQ(loop.scheduler().num_preemptions(), 1);
  const auto status = [&](const char* id) {
    return loop.scheduler().find(id)->seqs()[0]->status();
  };
  EXPECT_EQ(status("p"), SequenceStatus::kRunning);
  EXPECT_EQ(status("b"), SequenceStatus::kWaiting);
  loop.execute();
  loop.deliver();
  EXPECT_EQ(status("p"), SequenceStatus::kFinishedStopped);
  EXPECT_EQ(loop.num_pooled(), 1);
}

TEST(SchedulerPooled, TakesASeat) {
  auto c = config(/*budget=*/100, /*blocks=*/20);
  c.max_num_seqs = 2;
  EngineLoop loop(c);
  for (int i = 0; i < 3; ++i) loop.add(pooled("p" + std::to_string(i), i, 5, i));
  EXPECT_THAT(work(loop.step()), ElementsAre("p0:e5", "p1:e5"));
  EXPECT_THAT(work(loop.step()), ElementsAre("p2:e5"));
}

}  // namespace
}  // namespace tandem
