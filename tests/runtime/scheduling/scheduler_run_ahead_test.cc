// Several steps in flight, case by case. RunAheadLoop checks the rules and the KV memory on every
// step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/run_ahead_loop.h"
#include "tests/support/scheduling/scheduler_cases.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing_support::answer_of;
using testing_support::config;
using testing_support::GroupSpec;
using testing_support::make_group;
using testing_support::RunAheadLoop;
using testing_support::SampledToken;
using testing_support::tight;
using testing_support::work;

SchedulerConfig deep(SchedulerConfig c, int depth) {
  c.max_steps_in_flight = depth;
  return c;
}

void deliver(RunAheadLoop& loop) {
  loop.execute();
  loop.deliver();
}

std::string error_of(Scheduler& scheduler, uint64_t step, const std::vector<SampledToken>& tokens) {
  try {
    scheduler.complete_step(answer_of(step, tokens));
  } catch (const std::runtime_error& error) {
    scheduler.check_integrity();
    return error.what();
  }
  return "no error";
}

TEST(SchedulerRunAhead, TokensArePendingUntilTheirStepIsCompleted) {
  RunAheadLoop loop(deep(config(100, 30), 3));
  loop.add({.request_id = "x", .seq_ids = {1}, .max_tokens = 3});
  const Sequence& seq = *loop.scheduler().find("x")->find(1);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("x:e3", "x:2"));
  EXPECT_TRUE(loop.scheduler().find("x")->encoder_computed());
  EXPECT_EQ(seq.num_computed_tokens(), 2);
  EXPECT_EQ(seq.num_pending_tokens(), 1);
  EXPECT_EQ(seq.output_len(), 1);
  EXPECT_THAT(seq.output_tokens(), IsEmpty());
  EXPECT_THAT(work(loop.schedule()), ElementsAre("x:1"));
  EXPECT_THAT(work(loop.schedule()), ElementsAre("x:1"));
  EXPECT_EQ(seq.num_pending_tokens(), 3) << "as many as max_tokens allows";
  deliver(loop);
  EXPECT_THAT(seq.output_tokens(), SizeIs(1));
  EXPECT_EQ(seq.num_pending_tokens(), 2);
  EXPECT_FALSE(has_work(loop.schedule())) << "it waits for the results";
  EXPECT_EQ(loop.scheduler().steps_in_flight().size(), 2);
  loop.add({.request_id = "y", .seq_ids = {2}});
  EXPECT_EQ(loop.schedule().step(), 4u) << "a step without work has no number";
}

// The end of a sequence is found while the next step, which contains it, is in flight. Its blocks
// are given to another at once: the worker writes them in order.
TEST(SchedulerRunAhead, ASurplusTokenIsDroppedAndItsBlocksAreFreeAtOnce) {
  RunAheadLoop loop(deep(config(100, 5, 1), 2));
  Scheduler& scheduler = loop.scheduler();
  loop.add({.request_id = "x", .seq_ids = {1}, .encoder_len = 1, .prompt_len = 1});
  loop.schedule();
  loop.schedule();
  EXPECT_EQ(scheduler.block_manager().device().num_free(), 2);
  deliver(loop);
  scheduler.finish_sequence("x", 1, SequenceStatus::kFinishedStopped);
  EXPECT_EQ(scheduler.find("x")->find(1)->output_len(), 1) << "pending ones do not count any more";
  loop.free_finished();
  EXPECT_EQ(scheduler.block_manager().device().num_free(), 5);
  // The same name, and all the blocks, while the step in flight still holds the old ones.
  loop.add({.request_id = "x", .seq_ids = {2}, .encoder_len = 2, .prompt_len = 3, .max_tokens = 1});
  const auto step = loop.schedule();
  EXPECT_THAT(step.finished_request_ids(), ElementsAre("x"));
  EXPECT_THAT(work(step), ElementsAre("x:e2", "x:3"));
  loop.execute();
  EXPECT_THAT(loop.oldest_results(), SizeIs(1));
  EXPECT_THAT(loop.deliver(), IsEmpty()) << "the surplus token";
  deliver(loop);
  EXPECT_THAT(scheduler.find("x")->find(2)->output_tokens(), SizeIs(1));
}

TEST(SchedulerRunAhead, SiblingsGoOn) {
  RunAheadLoop loop(deep(config(100, 30), 2));
  loop.add({.request_id = "x", .seq_ids = {1, 2}, .max_tokens = 3});
  loop.schedule();
  loop.schedule();
  deliver(loop);
  loop.scheduler().finish_sequence("x", 1, SequenceStatus::kFinishedStopped);
  const auto step = loop.schedule();
  EXPECT_THAT(step.finished_seq_ids(), ElementsAre(1));
  EXPECT_THAT(work(step), ElementsAre("x:1"));
  loop.execute();
  EXPECT_THAT(loop.deliver(), SizeIs(1));
  deliver(loop);
  EXPECT_THAT(loop.scheduler().find("x")->find(1)->output_tokens(), SizeIs(1));
  EXPECT_THAT(loop.scheduler().find("x")->find(2)->output_tokens(), SizeIs(3));
  loop.check_tokens(*loop.scheduler().find("x"));
}

TEST(SchedulerRunAhead, StepsAreCompletedInOrder) {
  Scheduler scheduler(deep(config(3, 30), 2));
  scheduler.add_seq_group(make_group({.request_id = "a", .seq_ids = {1}, .encoder_len = 2}));
  EXPECT_EQ(error_of(scheduler, 1, {}), "step output: step 1 is not in flight");
  ASSERT_THAT(work(scheduler.schedule(0)), ElementsAre("a:e2", "a:1"));
  ASSERT_THAT(work(scheduler.schedule(0)), ElementsAre("a:1"));
  EXPECT_EQ(error_of(scheduler, 2, {{"a", 1, 5}}),
            "step output: step 2, but step 1 is the oldest in flight");
  EXPECT_THAT(error_of(scheduler, 1, {{"a", 1, 5}}), HasSubstr("its prompt is not finished"));
  EXPECT_EQ(error_of(scheduler, 1, {}), "no error");
  EXPECT_EQ(error_of(scheduler, 1, {}), "step output: step 1, but step 2 is the oldest in flight");
  EXPECT_THAT(error_of(scheduler, 2, {}), HasSubstr("no token"));
  EXPECT_EQ(scheduler.find("a")->find(1)->num_pending_tokens(), 1);
  EXPECT_EQ(error_of(scheduler, 2, {{"a", 1, 5}}), "no error");
  EXPECT_EQ(error_of(scheduler, 3, {}), "step output: step 3 is not in flight");
}

TEST(SchedulerRunAhead, TokensMayComeInAnyOrder) {
  Scheduler scheduler(deep(config(100, 100), 2));
  for (int r = 0; r < 4; ++r)
    scheduler.add_seq_group(make_group(
        {.request_id = std::to_string(r), .seq_ids = {2 * r, 2 * r + 1}, .max_tokens = 8}));
  scheduler.schedule(0);
  std::vector<SampledToken> tokens;
  for (const int seq : {0, 3, 2, 4, 7, 6, 1, 5})
    tokens.push_back({std::to_string(seq / 2), seq, 100 + seq});
  EXPECT_EQ(error_of(scheduler, 1, tokens), "no error");
  for (const int seq : {0, 1, 2, 3, 4, 5, 6, 7})
    EXPECT_THAT(scheduler.find(std::to_string(seq / 2))->find(seq)->output_tokens(),
                ElementsAre(100 + seq));
}

TEST(SchedulerRunAhead, TheStepOutputItselfCompletesAStep) {
  Scheduler scheduler(config(100, 30));
  scheduler.add_seq_group(make_group({.request_id = "a", .seq_ids = {1, 2}}));
  proto::StepOutput output;
  output.set_step(scheduler.schedule(0).step());
  auto& group = *output.add_outputs();
  group.set_request_id("a");
  const auto add = [&](int64_t seq_id, int32_t token) {
    auto& sample = *group.add_samples();
    sample.set_seq_id(seq_id);
    sample.set_token_id(token);
  };
  add(1, 11);
  EXPECT_THROW(scheduler.complete_step(output), std::runtime_error);
  add(2, 12);
  scheduler.complete_step(output);
  EXPECT_THAT(scheduler.find("a")->find(1)->output_tokens(), ElementsAre(11));
  EXPECT_THAT(scheduler.find("a")->find(2)->output_tokens(), ElementsAre(12));
}

TEST(SchedulerRunAheadDeathTest, NoMoreThanTheConfigAllows) {
  Scheduler scheduler(deep(config(100, 30), 2));
  scheduler.add_seq_group(make_group({.max_tokens = 9}));
  scheduler.schedule(0);
  scheduler.schedule(0);
  EXPECT_DEATH(scheduler.schedule(0), "not completed");
}

// b is preempted while a step that samples its token is in flight. It comes back, with the token,
// only when that is known.
TEST(SchedulerRunAhead, APreemptedGroupWaitsForItsTokens) {
  for (const PreemptionMode mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
    RunAheadLoop loop(deep(tight(mode, 100), 2));
    Scheduler& scheduler = loop.scheduler();
    loop.add(
        {.request_id = "a", .seq_ids = {1}, .encoder_len = 3, .prompt_len = 2, .max_tokens = 5});
    loop.add(
        {.request_id = "b", .seq_ids = {2}, .encoder_len = 3, .prompt_len = 2, .max_tokens = 5});
    loop.schedule();
    loop.schedule();
    deliver(loop);
    EXPECT_THAT(work(loop.schedule()), ElementsAre("a:1")) << "and b is preempted";
    const Sequence& seq = *scheduler.find("b")->find(2);
    EXPECT_EQ(scheduler.num_running(), 1);
    EXPECT_EQ(seq.num_pending_tokens(), 1);
    EXPECT_EQ(seq.num_computed_tokens(), mode == PreemptionMode::kSwap ? 3 : 0);
    scheduler.abort_seq_group("a");  // all blocks are free
    deliver(loop);                   // of the step that samples b's token
    EXPECT_EQ(seq.num_pending_tokens(), 0);
    const auto back = loop.schedule();
    ASSERT_EQ(back.groups_size(), 1);
    EXPECT_THAT(back.groups(0).seq_data(0).output_token_ids(), SizeIs(2));
    EXPECT_EQ(back.groups(0).compute_encoder(), mode == PreemptionMode::kRecompute);
    while (loop.in_flight() > 0) deliver(loop);
    loop.check_tokens(*scheduler.find("b"));
  }
}

TEST(SchedulerRunAhead, NothingOvertakesAGroupThatWaitsForItsTokens) {
  RunAheadLoop loop(deep(tight(PreemptionMode::kRecompute, 0), 3));
  Scheduler& scheduler = loop.scheduler();
  const auto add = [&](const char* id, int64_t seq, int max_tokens) {
    loop.add({.request_id = id,
              .seq_ids = {seq},
              .encoder_len = 3,
              .prompt_len = 2,
              .max_tokens = max_tokens});
  };
  add("a", 1, 5);
  add("b", 2, 5);
  for (int i = 0; i < 3; ++i) loop.schedule();
  EXPECT_EQ(scheduler.num_running(), 1);
  add("c", 3, 1);
  scheduler.abort_seq_group("a");
  deliver(loop);
  EXPECT_EQ(scheduler.find("b")->find(2)->num_pending_tokens(), 1);
  EXPECT_FALSE(has_work(loop.schedule())) << "there is room for c, but b is first";
  deliver(loop);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("b:e3", "b:4", "c:e3", "c:2"));
}

// --- Resumption ----------------------------------------------------------------------------------

TEST(SchedulerRunAhead, AGroupResumesWithWhatItHadEmitted) {
  RunAheadLoop loop(config(100, 30));
  const auto token = [](int index, int position, int32_t previous) {
    return testing_support::FakeWorker::token_of(1, "x", index, position, previous,
                                                 /*repeats=*/false);
  };
  const int32_t first = token(2, 1, 11);
  loop.add({.request_id = "x",
            .seq_ids = {7, 8},
            .max_tokens = 2,
            .emitted = {{}, {first}},
            .indices = {0, 2}});
  const auto step = loop.schedule();
  const auto& group = step.groups(0);
  EXPECT_THAT(work(step), ElementsAre("x:e3", "x:2", "x:3"));
  EXPECT_EQ(group.seq_data(0).index(), 0);
  EXPECT_EQ(group.seq_data(1).index(), 2);
  EXPECT_THAT(group.seq_data(1).prompt_token_ids(), SizeIs(2));
  EXPECT_THAT(group.seq_data(1).output_token_ids(), ElementsAre(first));
  deliver(loop);
  EXPECT_THAT(loop.scheduler().find("x")->find(8)->output_tokens(),
              ElementsAre(first, token(2, 2, first)));
  loop.scheduler().finish_sequence("x", 8, SequenceStatus::kFinishedLength);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("x:1"));
  deliver(loop);
  loop.check_tokens(*loop.scheduler().find("x"));
}

// What a group may still generate counts, not max_tokens besides what it has.
TEST(SchedulerRunAhead, AResumedGroupNeedsNoMoreThanBefore) {
  const Scheduler scheduler(config(10, 9));  // of two tokens
  const GroupSpec spec{.encoder_len = 4, .prompt_len = 5, .max_tokens = 10};
  scheduler.check_admissible(*make_group(spec));
  GroupSpec resumed = spec;
  resumed.emitted = {{1, 2, 3, 4, 5, 6, 7, 8, 9}};
  scheduler.check_admissible(*make_group(resumed));
  resumed.emitted = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
  try {
    scheduler.check_admissible(*make_group(resumed));
    ADD_FAILURE() << "it has ended";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "max_tokens: 10, but a sequence has 10 tokens already");
  }
}

}  // namespace
}  // namespace tandem
