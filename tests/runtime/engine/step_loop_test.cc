// StepLoop: credit for steps, ends by token, answers that are none, requests that run alone.

#include "runtime/engine/step_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>

#include "runtime/engine/states/request_state.h"
#include "tests/support/engine/engine_core_driver.h"
#include "tests/support/files/expect_error.h"
#include "tests/support/simulation/simulated_rank.h"
#include "tests/text/fake_tokenizer.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::SimulatedRank;
using testing_support::small_request;

constexpr int kVocab = testing_support::kSimulatedVocab;

class StepLoopTest : public ::testing::Test {
 protected:
  static SchedulerConfig config() {
    SchedulerConfig c;
    c.block_size = 2;
    c.num_device_blocks = 20;
    c.max_steps_in_flight = 2;
    c.enable_encoder_cache = c.enable_prefix_caching = true;
    return c;
  }
  proto::AddRequest request(const std::string& id, PreparedRequest prepared = small_request()) {
    prepared.params.clear_eos_token_id();
    RequestState state(id, std::move(prepared), tokenizer_, 0);
    state.set_first_seq_id(next_seq_id_);
    next_seq_id_ += state.num_seq_ids();
    return state.add_request();
  }
  void add(const std::string& id, int max_tokens = 8, bool alone = false) {
    auto r = request(id, small_request(1, max_tokens));
    r.set_alone(alone);
    loop.add(r);
    loop.check_integrity();
  }
  proto::StepInput next() {
    auto step = loop.next_step(now += 1);
    EXPECT_TRUE(step.has_value());
    return step.value_or(proto::StepInput());
  }
  // A worker's answer to the next step that was sent.
  proto::StepOutput answer(const proto::StepInput& step) { return rank.execute(step); }
  void take(const proto::StepOutput& output) {
    loop.on_output(output);
    loop.check_integrity();
  }
  void refused(const proto::StepOutput& output, const std::string& text) {
    try {
      loop.on_output(output);
      ADD_FAILURE() << text << ": accepted";
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find(text), std::string::npos) << e.what();
    }
    loop.check_integrity();
  }

  StepLoop loop{config(), kVocab};
  SimulatedRank rank{config()};
  double now = 0;

 private:
  FakeTokenizer tokenizer_;
  int64_t next_seq_id_ = 0;
};

TEST_F(StepLoopTest, RunsAheadAsFarAsItsCredit) {
  EXPECT_FALSE(loop.next_step(0));
  add("a");
  const auto first = next();
  EXPECT_EQ(loop.waiting_since(), 1);
  const auto second = next();
  EXPECT_EQ(loop.steps_in_flight(), 2);
  EXPECT_FALSE(loop.next_step(3));
  EXPECT_THAT(loop.in_flight_request_ids(), ElementsAre("a", "a"));
  EXPECT_EQ(loop.waiting_since(), 1);
  take(answer(first));
  EXPECT_EQ(loop.step_event().scheduled_at(), 1);
  EXPECT_EQ(loop.steps_completed(), 1u);
  EXPECT_THAT(loop.in_flight_request_ids(), ElementsAre("a"));
  next();
  take(answer(second));
  EXPECT_EQ(loop.step_event().scheduled_at(), 2);
}

// Runs behind, as a device does: an answer is made when it is taken.
class LateRunner : public StepRunner {
 public:
  explicit LateRunner(SimulatedRank& rank) : rank_(rank) {}
  void launch(const proto::StepInput& step) override {
    launched_.push_back(step);
    most_ = std::max(most_, launched_.size());
  }
  int steps_launched() const override { return static_cast<int>(launched_.size()); }
  bool ready() override { return !launched_.empty(); }
  proto::StepOutput finish() override {
    const proto::StepInput step = std::move(launched_.front());
    launched_.pop_front();
    return rank_.execute(step);
  }
  size_t most() const { return most_; }

 private:
  SimulatedRank& rank_;
  std::deque<proto::StepInput> launched_;
  size_t most_ = 0;
};

TEST_F(StepLoopTest, ATurnLaunchesToItsCreditAndProcessesTheOldestAnswer) {
  LateRunner runner(rank);
  const auto clock = [this] { return now += 1; };
  EXPECT_FALSE(loop.turn(runner, clock)) << "nothing to do";
  add("a", 4);
  uint64_t step = 0;
  while (const auto output = loop.turn(runner, clock)) {
    EXPECT_EQ(output->step(), ++step);
    EXPECT_EQ(loop.steps_completed(), step);
    EXPECT_EQ(loop.steps_in_flight(), runner.steps_launched());
    loop.check_integrity();
  }
  EXPECT_GE(step, 4u);
  EXPECT_EQ(runner.most(), 2u);
  EXPECT_FALSE(loop.has_unfinished());
}

TEST_F(StepLoopTest, ASequenceEndsByLengthAndTheSurplusIsPassedOver) {
  add("a", 2);
  std::deque<proto::StepInput> sent;
  int steps = 0;
  while (true) {
    while (auto step = loop.next_step(now)) sent.push_back(*step);
    if (sent.empty()) break;
    take(answer(sent.front()));
    sent.pop_front();
    ++steps;
  }
  EXPECT_FALSE(loop.has_unfinished());
  EXPECT_LE(steps, 3);
  EXPECT_EQ(loop.stats().num_free_blocks(), 20);
  EXPECT_EQ(loop.stats().num_total_blocks(), 20);
}

TEST_F(StepLoopTest, APooledRequestEndsWithItsStep) {
  PreparedRequest pooled;
  pooled.inputs.add_encoder_prompt_token_ids(10);
  pooled.params.set_n(1);
  pooled.params.mutable_pooling();
  add("a");
  loop.add(request("b", pooled));
  const auto step = next();
  auto output = answer(step);
  ASSERT_EQ(output.outputs_size(), 2);
  EXPECT_FALSE(loop.stats().num_free_blocks() == 20);
  const auto changed = [&](auto change) {
    proto::StepOutput wrong = output;
    change(wrong);
    return wrong;
  };
  refused(changed([](auto& o) { o.mutable_outputs(1)->mutable_embedding()->clear_values(); }),
          "empty embedding");
  refused(changed([](auto& o) { o.mutable_outputs(1)->clear_embedding(); }), "no pooled vector");
  refused(changed([](auto& o) { o.mutable_outputs(0)->mutable_embedding()->add_values(1); }),
          "tokens are generated");
  refused(changed([](auto& o) { o.set_encoder_seconds(-1); }), "encoder_seconds");
  refused(changed([](auto& o) { o.set_encoder_seconds(NAN); }), "encoder_seconds");
  refused(changed([](auto& o) { o.set_seconds(-1); }), "step output: seconds");
  refused(changed([](auto& o) { o.set_seconds(INFINITY); }), "step output: seconds");
  refused(changed([](auto& o) { o.set_pipeline_seconds(-1); }), "pipeline_seconds");
  refused(changed([](auto& o) { o.add_stage_seconds(1); }), "stage_seconds of 1 stages, not of 1");
  output.set_encoder_seconds(0.25);
  take(output);
  EXPECT_EQ(loop.stats().encoder_seconds(), 0.25);
  EXPECT_EQ(loop.stats().num_running(), 1);
  const auto second = next();
  EXPECT_THAT(second.finished_request_ids(), ElementsAre("b"));
}

TEST(StepLoopOfStages, AddsUpWhatStagesComputed) {
  SchedulerConfig config;
  config.block_size = 2;
  config.num_device_blocks = 20;
  config.stages = 2;
  StepLoop loop(config, kVocab);
  SimulatedRank rank(config);
  FakeTokenizer tokenizer;
  PreparedRequest prepared = small_request(1, 8);
  prepared.params.clear_eos_token_id();
  RequestState state("a", std::move(prepared), tokenizer, 0);
  state.set_first_seq_id(1);
  loop.add(state.add_request());
  EXPECT_EQ(loop.stats().stage_seconds_size(), 2);
  for (int i = 1; i <= 2; ++i) {
    proto::StepOutput output = rank.execute(*loop.next_step(i));
    for (const double seconds : {0.5, 0.25}) output.add_stage_seconds(seconds);
    output.set_pipeline_seconds(1);
    loop.on_output(output);
  }
  EXPECT_THAT(loop.stats().stage_seconds(), ElementsAre(1.0, 0.5));
  EXPECT_EQ(loop.stats().pipeline_seconds(), 2);
}

TEST_F(StepLoopTest, TheCachesCount) {
  PreparedRequest prepared = small_request(1, 1);  // one encoder token, one prompt token
  for (int token = 20; token < 24; ++token) prepared.inputs.add_prompt_token_ids(token);
  for (const char* id : {"a", "b"}) {
    loop.add(request(id, prepared));
    take(answer(next()));
    ASSERT_FALSE(loop.has_unfinished());
  }
  const proto::SchedulerStats stats = loop.stats();
  EXPECT_EQ(stats.encoder_cache_queries(), 2);
  EXPECT_EQ(stats.encoder_cache_hits(), 1);
  EXPECT_EQ(stats.encoder_cache_hit_tokens(), 1);
  EXPECT_EQ(stats.prefix_cache_queries(), 2 * 5);
  EXPECT_EQ(stats.prefix_cache_hits(), 4);
  EXPECT_EQ(stats.cache_evictions(), 0);
  EXPECT_EQ(stats.num_idle_blocks(), 1 + 2);
  EXPECT_EQ(stats.num_free_blocks(), 20);
}

TEST_F(StepLoopTest, EosEndsASequenceAtOnce) {
  auto r = request("a");
  r.mutable_sampling_params()->add_eos_token_id(77);
  loop.add(r);
  auto output = answer(next());
  output.mutable_outputs(0)->mutable_samples(0)->set_token_id(77);
  take(output);
  EXPECT_FALSE(loop.has_unfinished());
}

TEST_F(StepLoopTest, StopStringsReachItFromOutside) {
  add("a");
  const auto first = next();
  const auto second = next();
  take(answer(first));
  loop.finish_sequence("a", 0);
  loop.check_integrity();
  EXPECT_FALSE(loop.has_unfinished());
  take(answer(second));  // surplus
  loop.finish_sequence("a", 0);
  loop.finish_sequence("unknown", 5);
  EXPECT_EQ(loop.stats().num_free_blocks(), 20);
}

TEST_F(StepLoopTest, RequestsThatCanNeverRun) {
  EXPECT_INPUT_ERROR(loop.add(request("a", small_request(1, 1000))), "max_tokens");
  auto empty = small_request();
  empty.inputs.clear_encoder_prompt_token_ids();
  EXPECT_INPUT_ERROR(loop.add(request("a", empty)), "prompt");
  add("a");
  EXPECT_INPUT_ERROR(loop.add(request("a")), "in use");
  EXPECT_EQ(loop.stats().num_waiting(), 1);
}

TEST_F(StepLoopTest, AbortsWithStepsInFlight) {
  add("a");
  const auto first = next();
  const auto second = next();
  loop.abort("a");
  loop.abort("a");
  add("a");  // the same id, other sequences
  take(answer(first));
  take(answer(second));
  take(answer(next()));
  EXPECT_EQ(loop.stats().num_running(), 1);
}

TEST_F(StepLoopTest, AnswersThatAreNone) {
  refused({}, "no step is in flight");
  add("a");
  add("b");
  const auto good = answer(next());
  auto bad = good;
  bad.set_step(good.step() + 1);
  refused(bad, "step output 2 instead of 1");
  for (const int32_t token : {-1, kVocab}) {
    bad = good;
    bad.mutable_outputs(0)->mutable_samples(0)->set_token_id(token);
    refused(bad, "is not in [0, 259)");
    bad = good;
    auto& sample = *bad.mutable_outputs(1)->mutable_samples(0);
    sample.mutable_logprobs()->add_top()->set_token_id(token);
    refused(bad, "request \"b\": token");
    bad = good;
    bad.mutable_outputs(1)->mutable_moves()->add_parents(0);
    refused(bad, "request \"b\": moves of unequal lists");
    bad.mutable_outputs(1)->mutable_moves()->add_token_ids(token);
    refused(bad, "request \"b\": token");
    bad.mutable_outputs(1)->mutable_moves()->set_token_ids(0, 5);
    bad.mutable_outputs(1)->mutable_moves()->set_parents(0, token < 0 ? -1 : 1);
    refused(bad, "request \"b\": beam");
    bad = good;
    bad.mutable_outputs(0)->add_prompt_logprobs()->add_top()->set_token_id(token);
    refused(bad, "request \"a\": token");
  }
  bad = good;
  bad.mutable_outputs(1)->clear_samples();
  refused(bad, "no token");
  bad = good;
  bad.mutable_outputs()->RemoveLast();
  refused(bad, "no token");
  bad = good;
  *bad.mutable_outputs(0)->add_samples() = good.outputs(0).samples(0);
  refused(bad, "two tokens");
  bad = good;
  bad.mutable_outputs(0)->mutable_samples(0)->set_seq_id(999);
  refused(bad, "unknown sequence");
  EXPECT_EQ(loop.steps_completed(), 0u);
  take(good);  // nothing has changed
  refused(good, "no step is in flight");
}

TEST_F(StepLoopTest, ARequestAloneWaitsForTheStepsInFlight) {
  add("a");
  const auto first = next();
  const auto second = next();
  loop.abort("a");
  add("b", 8, /*alone=*/true);
  EXPECT_TRUE(loop.has_unfinished());
  take(answer(first));
  EXPECT_FALSE(loop.next_step(now));
  EXPECT_THAT(loop.in_flight_request_ids(), ElementsAre("a"));
  take(answer(second));
  const auto third = next();
  EXPECT_THAT(loop.in_flight_request_ids(), ElementsAre("b"));
  take(answer(third));
}

TEST_F(StepLoopTest, ARequestAloneStartsAtOnceIfNothingRuns) {
  add("a", 8, /*alone=*/true);
  next();
  EXPECT_THAT(loop.in_flight_request_ids(), ElementsAre("a"));
}

TEST_F(StepLoopTest, ARequestAloneMayBeAbortedOrRefused) {
  add("a");
  const auto first = next();
  loop.abort("a");
  auto large = request("b", small_request(1, 1000));
  large.set_alone(true);
  EXPECT_INPUT_ERROR(loop.add(large), "max_tokens");
  add("b", 8, /*alone=*/true);
  loop.abort("b");
  EXPECT_FALSE(loop.has_unfinished());
  take(answer(first));
  EXPECT_FALSE(loop.next_step(now));
  EXPECT_THAT(loop.in_flight_request_ids(), IsEmpty());
}

}  // namespace
}  // namespace tandem
