// The scheduler's policy, case by case. EngineLoop checks the rules and the KV memory on every
// step.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/scheduler_cases.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing_support::add_two;
using testing_support::answer_of;
using testing_support::config;
using testing_support::EngineLoop;
using testing_support::GroupSpec;
using testing_support::make_group;
using testing_support::SampledToken;
using testing_support::tight;
using testing_support::work;

// --- Messages ------------------------------------------------------------------------------------

TEST(Scheduler, AGroupTravelsInFullOnceThenAsDeltas) {
  EngineLoop loop(config(100, 30));
  loop.add({.request_id = "x", .seq_ids = {5, 6}, .encoder_len = 3, .prompt_len = 2});
  const auto first = loop.step();
  ASSERT_EQ(first.groups_size(), 1);
  EXPECT_EQ(first.deltas_size(), 0);
  const auto& group = first.groups(0);
  EXPECT_TRUE(group.is_prompt());
  EXPECT_TRUE(group.compute_encoder());
  EXPECT_THAT(group.encoder_seq_data().prompt_token_ids(), ElementsAre(1000, 1001, 1002));
  EXPECT_THAT(group.cross_block_table().blocks(), SizeIs(2)) << "one for both sequences";
  ASSERT_EQ(group.seq_data_size(), 2);
  EXPECT_EQ(group.seq_data(1).seq_id(), 6);
  EXPECT_EQ(group.seq_data(1).index(), 1);
  EXPECT_THAT(group.seq_data(1).prompt_token_ids(), ElementsAre(10, 11));
  EXPECT_EQ(group.seq_data(1).token_chunk_size(), 2);
  EXPECT_EQ(group.block_tables(1).seq_id(), 6);
  EXPECT_EQ(group.sampling_params().max_tokens(), 4);

  const auto second = loop.step();
  EXPECT_EQ(second.groups_size(), 0);
  ASSERT_EQ(second.deltas_size(), 1);
  EXPECT_THAT(second.deltas(0).seqs(0).new_blocks(), SizeIs(1));
  const auto third = loop.step();
  EXPECT_THAT(third.deltas(0).seqs(0).new_blocks(), IsEmpty()) << "the last block has room";
  EXPECT_EQ(third.step(), second.step() + 1);
}

TEST(Scheduler, WorkersHearWhatIsFinished) {
  EngineLoop loop(config(100, 30));
  loop.add({.request_id = "x", .seq_ids = {5, 6}, .max_tokens = 8});
  loop.step();
  loop.scheduler().finish_sequence("x", 5, SequenceStatus::kFinishedStopped);
  loop.add({.request_id = "y", .seq_ids = {7}, .max_tokens = 8});
  const auto step = loop.step();
  EXPECT_THAT(step.finished_seq_ids(), ElementsAre(5));
  EXPECT_THAT(step.finished_request_ids(), IsEmpty());
  loop.scheduler().finish_sequence("x", 6, SequenceStatus::kFinishedStopped);
  loop.scheduler().free_finished_seq_groups();
  EXPECT_THAT(loop.step().finished_request_ids(), ElementsAre("x"));
  EXPECT_THAT(loop.step().finished_request_ids(), IsEmpty());
  EXPECT_EQ(loop.worker().table().size(), 1u);
}

TEST(Scheduler, AnnouncementsWaitForAStepWithWork) {
  EngineLoop loop(config(100, 30));
  loop.add({.request_id = "x", .seq_ids = {5}, .max_tokens = 1});
  loop.run(1);
  const auto idle = loop.schedule();
  EXPECT_FALSE(has_work(idle));
  EXPECT_THAT(idle.finished_request_ids(), IsEmpty());
  loop.add({.request_id = "never scheduled", .seq_ids = {6}});
  loop.scheduler().abort_seq_group("never scheduled");
  loop.add({.request_id = "x", .seq_ids = {7}, .max_tokens = 1});  // the id is free again
  const auto step = loop.step();
  EXPECT_THAT(step.finished_request_ids(), ElementsAre("x"));
  EXPECT_EQ(step.groups(0).request_id(), "x");
}

// --- Admission -----------------------------------------------------------------------------------

// In a pool exactly as large as one group's maximum it runs to its end, never preempted; with a
// block less it is refused.
TEST(Scheduler, WhatIsAdmittedFits) {
  for (const int block_size : {1, 2, 3, 16}) {
    for (const int n : {1, 3}) {
      for (const int budget : {1, 4, 100}) {
        const GroupSpec spec{
            .seq_ids = n == 1 ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 2, 3},
            .encoder_len = 7,
            .prompt_len = 3,
            .max_tokens = 11};
        const auto blocks = [&](int tokens) { return (tokens + block_size - 1) / block_size; };
        const int total = blocks(7) + n * blocks(3 + 11 - 1);
        SCOPED_TRACE(::testing::Message() << block_size << " " << n << " " << budget);
        EngineLoop loop(config(budget, total, block_size));
        loop.add(spec);
        loop.run(60);
        EXPECT_EQ(loop.scheduler().num_preemptions(), 0);
        EXPECT_THAT(loop.tokens(1), SizeIs(14));
        EngineLoop smaller(config(budget, total - 1, block_size));
        EXPECT_THROW(smaller.add(spec), InputError);
        EXPECT_FALSE(smaller.scheduler().has_unfinished());
      }
    }
  }
}

InputError refusal(const GroupSpec& spec) {
  try {
    Scheduler(config(10, 20)).check_admissible(*make_group(spec));
  } catch (const InputError& error) {
    return error;
  }
  ADD_FAILURE() << "was admitted";
  return invalid_request("", "");
}

TEST(Scheduler, RefusalsNameTheParameterAndTheNumbers) {
  const InputError prompt = refusal({.encoder_len = 39});
  EXPECT_EQ(prompt.param(), "prompt");
  EXPECT_EQ(prompt.kind(), ErrorKind::kResource);
  EXPECT_STREQ(prompt.what(),
               "prompt: 39 encoder tokens and 1 x (2 prompt + 4 new) decoder tokens need 23 blocks "
               "of 2 tokens, but the cache has 20");
  const InputError max_tokens = refusal({.max_tokens = 2'000'000'000});
  EXPECT_EQ(max_tokens.param(), "max_tokens");
  EXPECT_THAT(max_tokens.what(), HasSubstr("need 1000000003 blocks"));
  EXPECT_EQ(refusal({.seq_ids = {1, 2, 3, 4, 5}, .max_tokens = 8}).param(), "n");
  const InputError n = refusal({.seq_ids = {1, 2, 3, 4, 5, 6, 7, 8, 9}, .max_tokens = 1});
  EXPECT_EQ(n.param(), "n");
  EXPECT_STREQ(n.what(), "n: 9 sequences, but max_num_seqs is 8");
  for (const int bad : {0, -1, -2'000'000'000}) {
    const InputError error = refusal({.max_tokens = bad});
    EXPECT_EQ(error.param(), "max_tokens");
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidRequest);
  }
  EXPECT_EQ(refusal({.encoder_len = 0}).param(), "prompt");
  EXPECT_EQ(refusal({.prompt_len = 0}).param(), "decoder_prompt");
}

TEST(Scheduler, RequestIdsAreUnique) {
  EngineLoop loop(config(10, 20));
  loop.add({.request_id = "x", .seq_ids = {1}});
  EXPECT_THROW(loop.scheduler().add_seq_group(make_group({.request_id = "x", .seq_ids = {2}})),
               InputError);
  EXPECT_EQ(loop.scheduler().num_waiting(), 1);
}

// --- Ends ----------------------------------------------------------------------------------------

TEST(Scheduler, BlocksComeBackAsSequencesAndGroupsFinish) {
  EngineLoop loop(config(100, 30));
  Scheduler& scheduler = loop.scheduler();
  const BlockManager& blocks = scheduler.block_manager();
  loop.add({.request_id = "x", .seq_ids = {1, 2}, .encoder_len = 5, .prompt_len = 4});
  loop.step();
  EXPECT_EQ(blocks.device().num_free(), 30 - 3 - 2 * 2);
  scheduler.finish_sequence("x", 1, SequenceStatus::kFinishedStopped);
  EXPECT_EQ(blocks.device().num_free(), 30 - 3 - 2);
  scheduler.finish_sequence("x", 1, SequenceStatus::kFinishedLength);  // no-op
  scheduler.finish_sequence("x", 99, SequenceStatus::kFinishedLength);
  scheduler.finish_sequence("unknown", 1, SequenceStatus::kFinishedLength);
  EXPECT_EQ(scheduler.find("x")->find(1)->status(), SequenceStatus::kFinishedStopped);
  scheduler.finish_sequence("x", 2, SequenceStatus::kFinishedStopped);
  EXPECT_EQ(blocks.device().num_free(), 30 - 3) << "the cross table is still held";
  EXPECT_NE(scheduler.find("x"), nullptr);
  EXPECT_FALSE(scheduler.has_unfinished());
  scheduler.check_integrity();
  scheduler.free_finished_seq_groups();
  EXPECT_EQ(blocks.device().num_free(), 30);
  EXPECT_EQ(scheduler.find("x"), nullptr);
}

TEST(Scheduler, AbortsInEveryState) {
  const auto run_until = [](EngineLoop& loop, auto condition) {
    for (int i = 0; !condition(); ++i) {
      ASSERT_LT(i, 20);
      loop.step();
    }
  };
  const auto check_gone = [](EngineLoop& loop, const char* id) {
    EXPECT_TRUE(loop.scheduler().abort_seq_group(id));
    EXPECT_EQ(loop.scheduler().find(id), nullptr);
    loop.scheduler().check_integrity();
    EXPECT_FALSE(loop.scheduler().abort_seq_group(id));
  };
  {  // waiting
    EngineLoop loop(tight(PreemptionMode::kSwap, 50));
    add_two(loop);
    check_gone(loop, "a");
    loop.run(20);
  }
  {  // running
    EngineLoop loop(tight(PreemptionMode::kSwap, 50));
    add_two(loop);
    loop.step();
    check_gone(loop, "a");
    EXPECT_EQ(loop.scheduler().block_manager().device().num_free(), 12 - 5);
    EXPECT_THAT(loop.step().finished_request_ids(), ElementsAre("a"));
    loop.run(20);
  }
  for (const PreemptionMode mode : {PreemptionMode::kSwap, PreemptionMode::kRecompute}) {
    EngineLoop loop(tight(mode, 50));  // swapped, or preempted and waiting
    add_two(loop);
    run_until(loop, [&] { return loop.scheduler().num_preemptions() == 1; });
    check_gone(loop, "b");
    EXPECT_EQ(loop.scheduler().block_manager().host().num_free(), 50);
    EXPECT_THAT(loop.step().finished_request_ids(), ElementsAre("b"));
    loop.run(20);
  }
  {  // scheduled, not completed; then finished, not freed
    EngineLoop loop(tight(PreemptionMode::kSwap, 50));
    add_two(loop);
    const auto step = loop.schedule();
    check_gone(loop, "b");
    const auto sampled = loop.complete(step);
    ASSERT_THAT(sampled, SizeIs(1));
    EXPECT_EQ(sampled[0].request_id, "a");
    loop.scheduler().finish_sequence("a", 1, SequenceStatus::kFinishedAborted);
    check_gone(loop, "a");
    EXPECT_EQ(loop.scheduler().block_manager().device().num_free(), 12);
    EXPECT_FALSE(loop.scheduler().has_unfinished());
  }
}

TEST(Scheduler, ASequenceWithAllItsTokensIsNotScheduled) {
  EngineLoop loop(config(100, 30));
  loop.add({.request_id = "x", .seq_ids = {1}, .max_tokens = 1});
  loop.complete(loop.schedule());
  EXPECT_FALSE(has_work(loop.scheduler().schedule(9))) << "someone has to finish it";
  EXPECT_TRUE(loop.scheduler().has_unfinished());
  loop.scheduler().finish_sequence("x", 1, SequenceStatus::kFinishedLength);
  EXPECT_FALSE(loop.scheduler().has_unfinished());
}

// --- Completion ----------------------------------------------------------------------------------

TEST(Scheduler, ChecksTheSampledTokens) {
  Scheduler scheduler(config(4, 30));
  scheduler.add_seq_group(
      make_group({.request_id = "a", .seq_ids = {1}, .encoder_len = 1, .prompt_len = 1}));
  scheduler.add_seq_group(
      make_group({.request_id = "b", .seq_ids = {2}, .encoder_len = 1, .prompt_len = 4}));
  scheduler.add_seq_group(make_group({.request_id = "c", .seq_ids = {3}}));
  ASSERT_THAT(work(scheduler.schedule(0)), ElementsAre("a:e1", "a:1", "b:e1", "b:1"));
  const auto error = [&](const std::vector<SampledToken>& sampled) -> std::string {
    try {
      scheduler.complete_step(answer_of(1, sampled));
    } catch (const std::runtime_error& e) {
      scheduler.check_integrity();
      EXPECT_EQ(scheduler.find("a")->find(1)->num_pending_tokens(), 1) << "nothing has changed";
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error({}), "step output: request \"a\", sequence 1: no token");
  EXPECT_THAT(error({{"a", 1, 5}, {"a", 1, 6}}), HasSubstr("two tokens"));
  EXPECT_THAT(error({{"a", 2, 5}}), HasSubstr("unknown sequence"));
  EXPECT_THAT(error({{"a", 1, 5}, {"b", 2, 6}}), HasSubstr("its prompt is not finished"));
  EXPECT_THAT(error({{"a", 1, 5}, {"c", 3, 6}}), HasSubstr("was not scheduled"));
  EXPECT_EQ(error({{"a", 1, 5}, {"gone", 3, 6}}), "no error");
  EXPECT_THAT(scheduler.find("a")->find(1)->output_tokens(), ElementsAre(5));
  EXPECT_EQ(scheduler.find("b")->find(2)->num_computed_tokens(), 1);
  EXPECT_TRUE(scheduler.find("b")->encoder_computed());
}

TEST(SchedulerDeathTest, StepsAreCompletedBeforeTheNext) {
  Scheduler scheduler(config(100, 30));
  scheduler.add_seq_group(make_group({}));
  scheduler.schedule(0);
  EXPECT_DEATH(scheduler.schedule(1), "not completed");
  scheduler.abort_seq_group("r");
  EXPECT_DEATH(scheduler.schedule(1), "not completed");
}

TEST(Scheduler, RecordsWhenAGroupWasFirstScheduled) {
  EngineLoop loop(config(100, 30));
  loop.step();
  loop.add({});
  EXPECT_FALSE(loop.scheduler().find("r")->first_scheduled_time.has_value());
  loop.step();
  loop.step();
  EXPECT_EQ(loop.scheduler().find("r")->first_scheduled_time, 2.0);
}

// --- Speed ---------------------------------------------------------------------------------------

// CPU microseconds for a step of 1,000 decodes, by what is done.
std::map<std::string, double> time_a_thousand_sequences(bool caches) {
  const SchedulerConfig c{.max_num_seqs = 1000,
                          .max_num_batched_tokens = 100'000,
                          .block_size = 16,
                          .num_device_blocks = 100'000,
                          .enable_prefix_caching = caches,
                          .enable_encoder_cache = caches};
  Scheduler scheduler(c);
  SequenceTable table({.block_size = 16, .num_device_blocks = 100'000});
  for (int r = 0; r < 1000; ++r)
    scheduler.add_seq_group(make_group({.request_id = "request-with-a-long-id-" + std::to_string(r),
                                        .seq_ids = {r},
                                        .encoder_len = 60,
                                        .max_tokens = 500,
                                        .source = r}));
  std::map<std::string, double> means;
  constexpr int kSteps = 200;
  for (int i = 0; i < kSteps; ++i) {
    std::clock_t last = std::clock();
    const auto lap = [&](const char* name) {
      if (i > 0)
        means[name] += 1e6 * static_cast<double>(std::clock() - last) / CLOCKS_PER_SEC / kSteps;
      last = std::clock();
    };
    const proto::StepInput step = scheduler.schedule(i);
    lap("schedule");
    const auto scheduled = table.apply(step);
    lap("apply");
    const Batch batch = build_batch(scheduled, 16);
    lap("build_batch");
    table.advance(scheduled);
    std::vector<SampledToken> sampled;
    for (size_t r = 0; r < batch.rows.size(); ++r) {
      const int64_t seq_id = batch.rows[r].seq().seq_id;
      table.append_token(*scheduled[r], seq_id, 5);
      sampled.push_back({scheduled[r]->request_id, seq_id, 5});
    }
    lap("advance, append");
    scheduler.complete_step(answer_of(step.step(), sampled));
    lap("complete");
  }
  return means;
}

// Not an assertion: prints (--gtest_also_run_disabled_tests).
TEST(SchedulerSpeed, DISABLED_AThousandSequences) {
  auto off = time_a_thousand_sequences(false), on = time_a_thousand_sequences(true);
  std::printf("%-16s %10s %10s, us\n", "caches", "off", "on");
  for (const auto& [name, mean] : off)
    std::printf("%-16s %10.1f %10.1f\n", name.c_str(), mean, on[name]);
}

}  // namespace
}  // namespace tandem
