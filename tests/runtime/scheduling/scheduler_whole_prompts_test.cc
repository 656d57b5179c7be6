// Prompts whose tokens attend to all of them: computed in the step that admits the group, and found
// in the cache by who has the same prompt only. The fake worker checks what each query sees.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/scheduler_cases.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using testing_support::EngineLoop;
using testing_support::work;

SchedulerConfig whole(int budget, int blocks) {
  SchedulerConfig c = testing_support::config(budget, blocks);
  c.whole_prompts = true;
  return c;
}

TEST(SchedulerWholePrompts, APromptIsNotDivided) {
  EngineLoop loop(whole(10, 40));
  loop.add({.request_id = "a", .seq_ids = {1}, .encoder_len = 3, .prompt_len = 4});
  loop.add({.request_id = "b", .seq_ids = {2}, .encoder_len = 2, .prompt_len = 3});
  // With b's encoder there would be room for one of its three tokens.
  EXPECT_THAT(work(loop.step()), ElementsAre("a:e3", "a:4"));
  EXPECT_THAT(work(loop.step()), ElementsAre("b:e2", "b:3", "a:1"));
  loop.run(20);
}

TEST(SchedulerWholePrompts, OneThatIsLongerThanTheBudgetGetsATurn) {
  EngineLoop loop(whole(4, 60));
  loop.add({.request_id = "a", .seq_ids = {1}, .encoder_len = 2, .prompt_len = 1, .max_tokens = 9});
  EXPECT_THAT(work(loop.step()), ElementsAre("a:e2", "a:1"));
  loop.add({.request_id = "b", .seq_ids = {2}, .encoder_len = 3, .prompt_len = 9, .max_tokens = 3});
  EXPECT_THAT(work(loop.step()), ElementsAre("b:e3", "b:9"));
  EXPECT_THAT(work(loop.step()), ElementsAre("a:1", "b:1"));
  loop.run(20);
  EXPECT_EQ(loop.rules().turns(), 1);
}

// Its own tokens behind the prompt are divided, as any.
TEST(SchedulerWholePrompts, RecomputedWithItsTokens) {
  EngineLoop loop(whole(6, 40));
  loop.add({.request_id = "a",
            .seq_ids = {1},
            .encoder_len = 1,
            .prompt_len = 3,
            .max_tokens = 9,
            .emitted = {{5, 6, 7, 8}}});
  EXPECT_THAT(work(loop.step()), ElementsAre("a:e1", "a:5"));
  EXPECT_THAT(work(loop.step()), ElementsAre("a:2"));
  loop.run(20);
}

TEST(SchedulerWholePrompts, SeveralSequencesComputeTheirsTogether) {
  EngineLoop loop(whole(4, 60));
  loop.add({.request_id = "a", .seq_ids = {1, 2}, .encoder_len = 1, .prompt_len = 3});
  EXPECT_THAT(work(loop.step()), ElementsAre("a:e1", "a:3", "a:3"));
  loop.run(20);
}

TEST(SchedulerWholePrompts, TheSamePromptIsFound) {
  SchedulerConfig c = whole(100, 60);
  c.enable_encoder_cache = c.enable_prefix_caching = true;
  EngineLoop loop(c);
  loop.add({.request_id = "a", .seq_ids = {1}, .prompt_len = 7, .max_tokens = 2});
  loop.run(20);
  loop.add({.request_id = "same", .seq_ids = {2}, .prompt_len = 7, .max_tokens = 2});
  EXPECT_THAT(work(loop.step()), ElementsAre("same:1"));
  loop.run(20);
  // The first four tokens are the same, and mean something else.
  loop.add({.request_id = "longer", .seq_ids = {3}, .prompt_len = 8, .max_tokens = 2});
  EXPECT_THAT(work(loop.step()), ElementsAre("longer:8"));
  loop.add({.request_id = "other", .seq_ids = {4}, .prompt_len = 7, .max_tokens = 2, .prompt = 1});
  EXPECT_THAT(work(loop.step()), ElementsAre("other:7", "longer:1"));
  loop.run(20);
}

// Nor does anybody find the keys of a request that looks back, for its prompt's log-probabilities.
TEST(SchedulerWholePrompts, RequestsThatLookBackHaveOtherKeys) {
  SchedulerConfig c = whole(100, 60);
  c.enable_encoder_cache = c.enable_prefix_caching = true;
  c.max_steps_in_flight = 2;
  Scheduler scheduler(c);
  scheduler.add_seq_group(testing_support::make_group(
      {.request_id = "scores", .seq_ids = {1}, .prompt_len = 7, .prompt_logprobs = true}));
  EXPECT_THAT(work(scheduler.schedule(1)), ElementsAre("scores:e3", "scores:7"));
  EXPECT_TRUE(scheduler.abort_seq_group("scores"));
  scheduler.add_seq_group(
      testing_support::make_group({.request_id = "a", .seq_ids = {2}, .prompt_len = 7}));
  EXPECT_THAT(work(scheduler.schedule(2)), ElementsAre("a:7"));
  scheduler.check_integrity();
}

}  // namespace
}  // namespace tandem
