// Steps of several stages, case by case: which groups are in which step. RunAheadLoop checks the
// rules and the KV memory on every step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/run_ahead_loop.h"
#include "tests/support/scheduling/scheduler_cases.h"

namespace tandem::scheduler_stages_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::config;
using testing_support::RunAheadLoop;
using testing_support::work;

SchedulerConfig staged(SchedulerConfig c, int stages, int depth = 1) {
  c.stages = stages;
  c.max_steps_in_flight = depth;
  return c;
}

void complete_oldest(RunAheadLoop& loop) {
  loop.execute();
  loop.deliver();
}

void add(RunAheadLoop& loop, const std::string& names, int max_tokens = 20) {
  for (const char name : names)
    loop.add({.request_id = std::string(1, name),
              .seq_ids = {name},
              .encoder_len = 1,
              .prompt_len = 1,
              .max_tokens = max_tokens});
}

TEST(SchedulerStages, StepsUnderWayHaveNoGroupInCommon) {
  RunAheadLoop loop(staged(config(100, 100), 2));
  add(loop, "abcd");
  EXPECT_THAT(work(loop.schedule()), ElementsAre("a:e1", "a:1", "b:e1", "b:1"));
  EXPECT_THAT(work(loop.schedule()), ElementsAre("c:e1", "c:1", "d:e1", "d:1"));
  EXPECT_FALSE(loop.can_schedule());
  complete_oldest(loop);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("a:1", "b:1"));
  complete_oldest(loop);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("c:1", "d:1"));
}

TEST(SchedulerStages, ALoneGroupIsInOneStepAtATime) {
  RunAheadLoop loop(staged(config(100, 100), 2, 2));
  add(loop, "a");
  EXPECT_THAT(work(loop.schedule()), ElementsAre("a:e1", "a:1"));
  EXPECT_THAT(work(loop.schedule()), IsEmpty()) << "at the other stage";
  complete_oldest(loop);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("a:1"));
}

// A step ahead of the answer to the one before of the same groups.
TEST(SchedulerStages, StepsRunAhead) {
  RunAheadLoop loop(staged(config(100, 100), 2, 2));
  add(loop, "ab");
  EXPECT_THAT(work(loop.schedule()), ElementsAre("a:e1", "a:1"));
  EXPECT_THAT(work(loop.schedule()), ElementsAre("b:e1", "b:1"));
  EXPECT_THAT(work(loop.schedule()), ElementsAre("a:1"));
  EXPECT_EQ(loop.scheduler().find("a")->find('a')->num_pending_tokens(), 2);
  EXPECT_FALSE(loop.can_schedule());
}

TEST(SchedulerStages, WhenGroupsComeAndGoTheStepsStayAlike) {
  RunAheadLoop loop(staged(config(100, 100), 2));
  add(loop, "abcdef");
  EXPECT_THAT(work(loop.schedule()), ElementsAre("a:e1", "a:1", "b:e1", "b:1", "c:e1", "c:1"));
  EXPECT_THAT(work(loop.schedule()), ElementsAre("d:e1", "d:1", "e:e1", "e:1", "f:e1", "f:1"));
  loop.abort("a");
  loop.abort("b");
  complete_oldest(loop);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("c:1")) << "the others are under way";
  complete_oldest(loop);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("d:1", "e:1"));
  complete_oldest(loop);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("c:1", "f:1"));
  add(loop, "gh");
  complete_oldest(loop);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("g:e1", "g:1", "d:1", "e:1"));
  complete_oldest(loop);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("h:e1", "h:1", "c:1", "f:1"));
}

// The first group in order gets its block, wherever the last one is.
TEST(SchedulerStages, AGroupAtAnotherStageIsPreempted) {
  RunAheadLoop loop(staged(config(100, 4, 1), 2));
  add(loop, "ab", 3);
  loop.schedule();
  loop.schedule();
  EXPECT_EQ(loop.scheduler().block_manager().device().num_free(), 0);
  complete_oldest(loop);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("a:1"));
  EXPECT_EQ(loop.scheduler().num_preemptions(), 1);
  EXPECT_EQ(loop.scheduler().num_waiting(), 1);
  while (loop.in_flight() > 0) complete_oldest(loop);
  EXPECT_EQ(loop.scheduler().find("b")->find('b')->num_known_tokens(), 2) << "its token counts";
}

}  // namespace
}  // namespace tandem::scheduler_stages_test
