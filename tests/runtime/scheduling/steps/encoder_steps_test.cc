// Encoders on ranks of their own: their steps, what is taken from them, and random arrivals,
// aborts, ends and preemptions over tiny pools. FakeWorker checks every key that is read, so a
// group that runs before its encoder's result was taken is found; so is a result that is taken out
// of order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/dice.h"
#include "tests/support/scheduling/encoder_loop.h"
#include "tests/support/scheduling/scheduler_cases.h"

namespace tandem::encoder_steps_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using testing_support::config;
using testing_support::Dice;
using testing_support::EncoderLoop;
using testing_support::GroupSpec;
using testing_support::work;

SchedulerConfig apart(SchedulerConfig c, int ranks, int first = 1) {
  c.encoder_ranks = ranks;
  c.first_encoder_rank = first;
  return c;
}

void add(EncoderLoop& loop, const std::string& names, int encoder_len = 3, int max_tokens = 20) {
  for (const char name : names) {
    loop.add({.request_id = std::string(1, name),
              .seq_ids = {name},
              .encoder_len = encoder_len,
              .prompt_len = 1,
              .max_tokens = max_tokens});
  }
}

void add_equal(EncoderLoop& loop, char name) {
  loop.add({.request_id = std::string(1, name),
            .seq_ids = {name},
            .encoder_len = 4,
            .max_tokens = 3,
            .source = 7});
}

TEST(EncoderSteps, AGroupRunsWhenItsEncodersResultIsTaken) {
  EncoderLoop loop(apart(config(100, 100), 1));
  add(loop, "ab");
  EXPECT_THAT(work(loop.schedule()), IsEmpty());
  EXPECT_THAT(loop.schedule_encoders(), ElementsAre("1 a:e3", "1 b:e3"));
  EXPECT_FALSE(has_work(loop.schedule())) << "their encoders run";
  EXPECT_FALSE(loop.scheduler().has_work() && loop.scheduler().encoder_steps().has_ready());
  loop.encode(1);
  const proto::StepInput step = loop.schedule();
  EXPECT_EQ(step.takes_size(), 2);
  EXPECT_EQ(step.takes(0).blocks_size(), 2);
  EXPECT_THAT(work(step), ElementsAre("a:1", "b:1"));
  EXPECT_EQ(loop.decode().size(), 2u);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("a:1", "b:1"));
}

// Those that run go on while an input is encoded, however long it is.
TEST(EncoderSteps, OthersAreNotHeldUp) {
  EncoderLoop loop(apart(config(4, 100), 1));
  add(loop, "a");
  loop.schedule();
  loop.schedule_encoders();
  loop.encode(1);
  loop.schedule();
  loop.decode();
  add(loop, "b", 60);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(work(loop.schedule()), ElementsAre("a:1"));
    if (i == 0) {
      EXPECT_THAT(loop.schedule_encoders(), ElementsAre("1 b:e60"));
    }
    loop.decode();
  }
  loop.encode(1);
  EXPECT_THAT(work(loop.schedule()), ElementsAre("b:1", "a:1")) << "in full first";
}

TEST(EncoderSteps, StepsGoToTheRankWithTheFewestTokens) {
  EncoderLoop loop(apart(config(8, 100), 2, 3));
  add(loop, "ab", 8);
  add(loop, "cd", 4);
  add(loop, "efgh", 6);
  loop.schedule();
  EXPECT_THAT(loop.schedule_encoders(),
              ElementsAre("3 a:e8", "4 b:e8", "3 c:e4", "3 d:e4", "4 e:e6"))
      << "two steps of eight tokens each, at most";
  loop.encode(4);
  EXPECT_THAT(loop.schedule_encoders(), ElementsAre("4 f:e6"));
}

// It cannot be called back.
TEST(EncoderSteps, WhatNobodyWantsIsTakenAndDropped) {
  EncoderLoop loop(apart(config(100, 100), 1));
  add(loop, "ab");
  loop.schedule();
  loop.schedule_encoders();
  EXPECT_TRUE(loop.scheduler().abort_seq_group("a"));
  EXPECT_THAT(loop.scheduler().encoder_steps().request_ids(), ElementsAre("a", "b"))
      << "a rank that dies may die of it";
  loop.encode(1);
  EXPECT_TRUE(loop.scheduler().abort_seq_group("b"));
  EXPECT_FALSE(loop.scheduler().has_unfinished());
  EXPECT_TRUE(loop.scheduler().has_work());
  const proto::StepInput step = loop.schedule();
  ASSERT_EQ(step.takes_size(), 2);
  EXPECT_EQ(step.takes(0).blocks_size() + step.takes(1).blocks_size(), 0);
  EXPECT_THAT(work(step), IsEmpty());
  loop.decode();
  EXPECT_FALSE(loop.scheduler().has_work());
  EXPECT_EQ(loop.sent(1), 0);
  EXPECT_EQ(loop.scheduler().block_manager().device().num_free(), 100);
}

// A group whose encoder runs gives up its blocks for one before it, and is encoded again.
TEST(EncoderSteps, AGroupThatWaitsIsPreempted) {
  SchedulerConfig c = apart(config(100, 8, 1), 1);
  c.num_host_blocks = 8;
  c.preemption = PreemptionMode::kSwap;
  EncoderLoop loop(c);
  add(loop, "a", 2, 6);
  loop.schedule();
  loop.schedule_encoders();
  loop.encode(1);
  add(loop, "b", 3, 3);
  loop.schedule();
  EXPECT_THAT(loop.schedule_encoders(), ElementsAre("1 b:e3"));
  loop.decode();
  while (loop.scheduler().num_preemptions() == 0) {
    ASSERT_TRUE(has_work(loop.schedule()));
    loop.decode();
  }
  EXPECT_EQ(loop.scheduler().num_swapped(), 0) << "there is nothing to be swapped";
  EXPECT_EQ(loop.scheduler().num_waiting(), 1);
  loop.encode(1);
  EXPECT_EQ(loop.schedule().takes(0).blocks_size(), 0) << "void";
}

TEST(EncoderSteps, AResultIsFoundByWhoeverHasTheSameSource) {
  SchedulerConfig c = apart(config(100, 100), 1);
  c.enable_encoder_cache = true;
  EncoderLoop loop(c);
  for (const char name : {'a', 'b', 'c'}) {
    add_equal(loop, name);
    loop.schedule();
    if (name == 'a') {
      EXPECT_THAT(loop.schedule_encoders(), ElementsAre("1 a:e4"));
    } else if (name == 'b') {
      EXPECT_THAT(loop.schedule_encoders(), IsEmpty()) << "the first's is under way";
      EXPECT_EQ(loop.scheduler().num_waiting(), 1);
      loop.encode(1);
      EXPECT_THAT(work(loop.schedule()), UnorderedElementsAre("a:2", "b:2"));
      loop.decode();
    }
  }
  EXPECT_THAT(loop.schedule_encoders(), IsEmpty());
  EXPECT_EQ(loop.scheduler().block_manager().cache_stats().encoder_hits, 2);
}

TEST(EncoderSteps, WhoWaitsForAnEqualInputIsEncodedIfThatOneEnds) {
  SchedulerConfig c = apart(config(100, 100), 1);
  c.enable_encoder_cache = true;
  EncoderLoop loop(c);
  for (const char name : {'a', 'b'}) add_equal(loop, name);
  loop.schedule();
  EXPECT_THAT(loop.schedule_encoders(), ElementsAre("1 a:e4"));
  EXPECT_TRUE(loop.scheduler().abort_seq_group("a"));
  loop.schedule();
  EXPECT_THAT(loop.schedule_encoders(), ElementsAre("1 b:e4"));
}

struct Counts {
  int steps = 0, encoder_steps = 0, dropped = 0, pooled = 0, preempted = 0, found = 0,
      completed = 0;
};

class Simulation : Dice {
 public:
  Simulation(uint32_t seed, int stages, Counts& counts)
      : Dice(seed), config_(random_config(stages)), loop_(config_), counts_(counts) {}

  void run(int operations) {
    for (int i = 0; i < operations && !::testing::Test::HasFailure(); ++i) {
      const int op = uniform(0, 99);
      if (op < 18)
        arrive();
      else if (op < 23)
        end_one(/*aborted=*/true);
      else if (op < 26)
        end_one(/*aborted=*/false);
      else
        advance();
    }
    for (int i = 0; scheduler().has_work() || busy(); ++i) {
      ASSERT_LT(i, 100'000) << "starvation";
      if (::testing::Test::HasFailure()) return;
      advance();
    }
    EXPECT_EQ(scheduler().block_manager().device().num_free(), config_.num_device_blocks);
    EXPECT_EQ(scheduler().block_manager().host().num_free(), config_.num_host_blocks);
    for (int rank = loop_.first(); rank < loop_.first() + config_.encoder_ranks; ++rank)
      EXPECT_EQ(loop_.sent(rank), 0) << "what is sent is taken";
    counts_.preempted += scheduler().num_preemptions();
    counts_.found += static_cast<int>(scheduler().block_manager().cache_stats().encoder_hits);
  }

 private:
  Scheduler& scheduler() { return loop_.scheduler(); }

  SchedulerConfig random_config(int stages) {
    SchedulerConfig c;
    c.stages = stages;
    c.encoder_ranks = uniform(1, 3);
    c.first_encoder_rank = stages;
    c.block_size = pick({1, 2, 3, 16});
    c.max_num_seqs = pick({1, 3, 8, 32});
    c.max_num_batched_tokens = pick({1, 5, 16, 64});
    c.num_device_blocks = uniform(20, 80) / std::min(c.block_size, 6);
    c.num_host_blocks = pick({0, 30, 200});
    c.preemption = static_cast<PreemptionMode>(pick({0, 1, 2}));
    c.enable_encoder_cache = !one_in(4);
    c.enable_prefix_caching = !one_in(4);
    c.whole_prompts = one_in(3);
    c.max_steps_in_flight = uniform(1, 3);
    return c;
  }

  void arrive() {
    GroupSpec spec;
    spec.request_id = "request " + std::to_string(uniform(0, 30));
    if (scheduler().find(spec.request_id) != nullptr) return;
    spec.seq_ids.clear();
    for (int i = one_in(3) ? uniform(1, 4) : 1; i > 0; --i) spec.seq_ids.push_back(next_seq_++);
    spec.source = one_in(2) ? uniform(1, 4) : 5 + static_cast<int>(next_seq_);
    spec.encoder_len = spec.source < 5 ? 4 * spec.source : uniform(1, 20);
    spec.prompt_len = one_in(3) ? uniform(1, 12) : 2;
    spec.max_tokens = uniform(1, 30);
    if (one_in(5)) {
      spec.pooled = true;
      spec.seq_ids.resize(1);
    }
    spec.priority = one_in(5) ? uniform(-1, 1) : 0;
    try {
      loop_.add(spec);
    } catch (const InputError&) {  // larger than the pool
    }
  }

  void end_one(bool aborted) {
    const std::string name = "request " + std::to_string(uniform(0, 30));
    const SequenceGroup* group = scheduler().find(name);
    if (group == nullptr) return;
    counts_.dropped += group->encoder_place() == EncoderPlace::kUnderWay;
    if (aborted)
      scheduler().abort_seq_group(name);
    else
      scheduler().finish_sequence(name, group->seqs().front()->seq_id(),
                                  SequenceStatus::kFinishedStopped);
    scheduler().check_integrity();
    if (one_in(2)) scheduler().free_finished_seq_groups();
  }

  bool busy() const {
    for (int rank = loop_.first(); rank < loop_.first() + config_.encoder_ranks; ++rank)
      if (loop_.under_way(rank) > 0) return true;
    return loop_.in_flight() > 0;
  }

  void advance() {
    const int rank = loop_.first() + uniform(0, config_.encoder_ranks - 1);
    switch (uniform(0, 2)) {
      case 0:
        if (loop_.can_schedule()) counts_.steps += has_work(loop_.schedule());
        counts_.encoder_steps += !loop_.schedule_encoders().empty();
        return;
      case 1:
        if (loop_.under_way(rank) == 0) return;
        {
          const int before = scheduler().num_running();
          loop_.encode(rank);
          counts_.pooled += before - scheduler().num_running();
          scheduler().free_finished_seq_groups();
        }
        return;
      default:
        if (loop_.in_flight() == 0) return;
        counts_.completed += static_cast<int>(loop_.decode().size());
    }
  }

  SchedulerConfig config_;
  EncoderLoop loop_;
  Counts& counts_;
  int64_t next_seq_ = 0;
};

class EncoderStepsRandom : public ::testing::TestWithParam<int> {};

TEST_P(EncoderStepsRandom, EveryRequestEnds) {
  Counts counts;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation(seed, GetParam(), counts).run(300);
    if (HasFailure()) return;
  }
  EXPECT_GE(counts.steps, 10'000);
  EXPECT_GE(counts.encoder_steps, 2'000);
  EXPECT_GE(counts.completed, 10'000);
  EXPECT_GE(counts.dropped, 50);
  EXPECT_GE(counts.pooled, 300);
  EXPECT_GE(counts.preempted, 300);
  EXPECT_GE(counts.found, 100);
}

INSTANTIATE_TEST_SUITE_P(Stages, EncoderStepsRandom, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace tandem::encoder_steps_test
