// EngineCore and its replicas: routing, recovery, query of death, generations.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/engine/core/engine_core.h"
#include "tests/support/engine/engine_core_driver.h"

namespace tandem::engine_core_replicas_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::EngineCoreDriver;
using testing_support::letter;
using testing_support::small_request;

constexpr ClientId kAnn = 1;

class EngineCoreReplicas : public ::testing::Test {
 protected:
  EngineCoreReplicas() { engine.core().client_connected(kAnn); }

  void submit(const std::string& id, int n = 1) {
    engine.now += 1;  // arrivals are in order
    engine.submit(kAnn, id, small_request(n));
  }
  void clear(const std::string& id) {
    for (int i = 0; i < ReplicaTable::kProbationTokens; ++i) engine.token(0, id, 'x');
  }

  EngineCoreDriver engine{{.num_replicas = 2}};
};

TEST_F(EngineCoreReplicas, RequestsWaitForAReplica) {
  submit("a");
  submit("b");
  EXPECT_EQ(engine.core().num_unfinished(), 2u);
  engine.up(1);
  EXPECT_THAT(engine.told(1), ElementsAre("add a", "add b"));
}

TEST_F(EngineCoreReplicas, TheOneWithTheFewestRequestsIsNext) {
  engine.up(0);
  engine.up(1);
  for (const char* id : {"a", "b", "c", "d"}) submit(id);
  EXPECT_THAT(engine.told(0), ElementsAre("add a", "add c"));
  EXPECT_THAT(engine.told(1), ElementsAre("add b", "add d"));
  engine.step(1, engine.output("b", 2));
  submit("e");
  EXPECT_THAT(engine.told(1), ElementsAre("abort b", "add e"));
}

TEST_F(EngineCoreReplicas, ADeadReplicasRequestsMoveWithTheirTokens) {
  engine.up(0);
  engine.up(1);
  submit("a");
  engine.token(0, "a", 'x');
  engine.token(0, "a", 'y');
  engine.chunks(kAnn);
  engine.down(0, false);
  ASSERT_EQ(engine.last_command(1).add().request_id(), "a");
  EXPECT_EQ(engine.last_command(1).add().seqs(0).output_token_ids_size(), 2);
  EXPECT_THAT(engine.told(1), ElementsAre("add a+2"));
  EXPECT_THAT(engine.chunks(kAnn), IsEmpty());
  engine.token(1, "a", 'z');
  EXPECT_EQ(engine.chunks(kAnn).at(0).outputs(0).token_offset(), 2);
}

TEST_F(EngineCoreReplicas, TheyComeBackBeforeLaterOnesAndInOrder) {
  engine.up(0);
  for (const char* id : {"a", "b", "c"}) submit(id);
  engine.down(0, false);
  submit("d");
  engine.told();
  engine.up(0);
  EXPECT_THAT(engine.told(), ElementsAre("add a", "add b", "add c", "add d"));
}

TEST_F(EngineCoreReplicas, WhatOldWorkersSendIsDropped) {
  engine.up(0);
  submit("a");
  const auto old = engine.event(0);
  const auto late = engine.output("a", letter('x'));
  engine.down(0, false);
  engine.core().replica_step(old, late, engine.now);  // while nothing is up
  engine.up(0);
  engine.core().replica_step(old, late, engine.now);
  engine.core().replica_step(old, engine.output("a", letter('y')), engine.now);
  auto down = old;
  down.mutable_down();
  engine.core().replica_event(down, engine.now);
  EXPECT_THAT(engine.chunks(kAnn), IsEmpty());
  engine.step(0, late);  // of this generation, but of sequence ids that it has given up
  EXPECT_THAT(engine.chunks(kAnn), IsEmpty());
  engine.token(0, "a", 'z');
  EXPECT_EQ(engine.chunks(kAnn).at(0).outputs(0).text(), "z");
}

TEST_F(EngineCoreReplicas, OneSequenceFinishedBeforeADeath) {
  engine.up(0);
  submit("a", 3);
  for (const int index : {0, 1, 2}) engine.token(0, "a", 'x', index);
  engine.step(0, engine.output("a", 2, 1));
  EXPECT_THAT(engine.told(), ElementsAre("add a", "finish a"));
  engine.down(0, false);
  engine.up(0);
  const auto& add = engine.last_command(0).add();
  ASSERT_EQ(add.seqs_size(), 2);
  EXPECT_EQ(add.seqs(0).index(), 0);
  EXPECT_EQ(add.seqs(1).index(), 2);
  engine.chunks(kAnn);
  engine.step(0, engine.output("a", letter('y'), 1));  // it has ended
  engine.step(0, engine.output("a", 2, 0));
  engine.step(0, engine.output("a", 2, 2));
  const auto chunks = engine.chunks(kAnn);
  EXPECT_TRUE(chunks.back().finished());
  EXPECT_THAT(engine.told().back(), "abort a");
}

TEST_F(EngineCoreReplicas, ARefusalByTheScheduler) {
  engine.up(0);
  submit("a");
  auto event = engine.event(0);
  event.mutable_rejected()->set_request_id("a");
  event.mutable_rejected()->mutable_error()->set_type("resource_error");
  event.mutable_rejected()->set_seq_id(engine.first_seq_id("a") + 99);  // an earlier one of that id
  engine.core().replica_event(event, engine.now);
  EXPECT_TRUE(engine.chunks(kAnn).empty());
  event.mutable_rejected()->set_seq_id(engine.first_seq_id("a"));
  engine.core().replica_event(event, engine.now);
  EXPECT_EQ(engine.error(kAnn), "resource_error");
  event.mutable_rejected()->set_request_id("unknown");
  engine.core().replica_event(event, engine.now);
  engine.core().check_integrity();
}

// --- Ids that are used again ---------------------------------------------------------------------

TEST_F(EngineCoreReplicas, WhatComesLateOfAnEarlierRequestOfThatIdIsPassedOver) {
  engine.up(0);
  const auto with_prompt_logprobs = [](int beams) {
    PreparedRequest request = small_request();
    request.inputs.add_prompt_token_ids(letter('p'));
    request.params.set_prompt_logprobs(0);
    request.params.set_num_beams(beams);
    return request;
  };
  engine.submit(kAnn, "a", with_prompt_logprobs(1));
  const int64_t old = engine.first_seq_id("a");
  engine.core().cancel("a", engine.now);
  engine.submit(kAnn, "a", with_prompt_logprobs(2));
  const int64_t first = engine.first_seq_id("a");
  ASSERT_NE(first, old);
  engine.chunks(kAnn);

  const auto prompt_logprobs = [&](int64_t seq_id, int32_t token) {
    proto::StepOutput step;
    auto& group = *step.add_outputs();
    group.set_request_id("a");
    group.set_seq_id(seq_id);
    group.set_prompt_logprobs_start(1);
    group.add_prompt_logprobs()->add_top()->set_token_id(token);
    return step;
  };
  const auto beam_result = [&](int64_t seq_id, int32_t token) {
    auto event = engine.event(0);
    auto& result = *event.add_beam_results();
    result.set_request_id("a");
    result.set_seq_id(seq_id);
    result.add_hypotheses()->add_token_ids(token);
    auto& preempted = *event.add_preempted();
    preempted.set_request_id("a");
    preempted.set_seq_id(seq_id);
    return event;
  };
  engine.step(0, prompt_logprobs(old, letter('x')));
  engine.core().replica_step(beam_result(old, letter('x')), {}, engine.now);
  EXPECT_THAT(engine.chunks(kAnn), IsEmpty());
  engine.step(0, prompt_logprobs(first, letter('p')));
  engine.core().replica_step(beam_result(first + 1, letter('y')), {}, engine.now);
  const auto chunks = engine.chunks(kAnn);
  ASSERT_EQ(chunks.size(), 2u);
  ASSERT_EQ(chunks[0].prompt_logprobs_size(), 1);
  EXPECT_EQ(chunks[0].prompt_logprobs(0).top(0).token_id(), letter('p'));
  EXPECT_EQ(chunks[1].prompt_logprobs_offset(), 1);
  EXPECT_EQ(chunks[1].outputs(0).text(), "y");
  EXPECT_EQ(chunks[1].metrics().num_preemptions(), 1);
}

TEST_F(EngineCoreReplicas, PreemptionsAddUpOverReplicas) {
  engine.up(0);
  submit("a");
  const auto preempted = [&](int replica) {
    auto event = engine.event(replica);
    auto& message = *event.add_preempted();
    message.set_request_id("a");
    message.set_seq_id(engine.first_seq_id("a"));
    return event;
  };
  engine.core().replica_step(preempted(0), {}, engine.now);
  engine.core().replica_step(preempted(0), {}, engine.now);
  engine.down(0, false);
  engine.up(0);
  engine.core().replica_step(preempted(0), {}, engine.now);
  engine.step(0, engine.output("a", 2));
  EXPECT_EQ(engine.chunks(kAnn).back().metrics().num_preemptions(), 3);
}

// --- Best of several -----------------------------------------------------------------------------

TEST_F(EngineCoreReplicas, TheBestOfSeveralAreShownWhenAllHaveEnded) {
  engine.up(0);
  PreparedRequest request = small_request(2, 3);
  request.params.set_best_of(4);
  request.params.set_skip_special_tokens(true);
  engine.submit(kAnn, "a", std::move(request));
  ASSERT_EQ(engine.last_command(0).add().seqs_size(), 4);
  engine.chunks(kAnn);
  // Log-probabilities: 0: -3, 1: -1 -1, 2: -0.5 and cut at three tokens: -1.5, 3: -2.
  engine.step(0, engine.output("a", letter('k'), 1, -1));
  ASSERT_EQ(engine.chunks(kAnn).at(0).outputs_size(), 0);  // of its inputs
  engine.step(0, engine.output("a", 2, 0, -3));
  engine.step(0, engine.output("a", letter('m'), 2, -0.5));
  EXPECT_THAT(engine.chunks(kAnn), IsEmpty());
  EXPECT_THAT(engine.told().back(), "finish a");

  engine.down(0, false);  // what has ended stays known
  engine.up(0);
  const auto& add = engine.last_command(0).add();
  ASSERT_EQ(add.seqs_size(), 3);
  EXPECT_EQ(add.seqs(0).index(), 1);
  EXPECT_EQ(add.seqs(0).output_token_ids_size(), 1);
  EXPECT_EQ(add.sampling_params().best_of(), 4);
  engine.step(0, engine.output("a", 2, 1, -1));
  engine.step(0, engine.output("a", 2, 3, -2));
  engine.step(0, engine.output("a", letter('n'), 2, -0.5));
  EXPECT_THAT(engine.chunks(kAnn), IsEmpty());
  engine.step(0, engine.output("a", letter('o'), 2, -0.5));
  const auto chunks = engine.chunks(kAnn);
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_TRUE(chunks[0].finished());
  ASSERT_EQ(chunks[0].outputs_size(), 2);
  EXPECT_EQ(chunks[0].outputs(0).index(), 0);
  EXPECT_EQ(chunks[0].outputs(0).text(), "mno");
  EXPECT_EQ(chunks[0].outputs(0).finish_reason(), "length");
  EXPECT_DOUBLE_EQ(chunks[0].outputs(0).cumulative_logprob(), -1.5);
  EXPECT_EQ(chunks[0].outputs(1).index(), 1);
  EXPECT_EQ(chunks[0].outputs(1).text(), "k");  // before 3, which is equal
  EXPECT_EQ(engine.core().num_unfinished(), 0u);
  engine.resume(kAnn, "a", 0, 0);
  EXPECT_EQ(engine.chunks(kAnn).at(0).outputs_size(), 2);
}

// --- Query of death ------------------------------------------------------------------------------

TEST_F(EngineCoreReplicas, SuspectsRunAloneAndAreCleared) {
  engine.up(0);
  for (const char* id : {"a", "b", "c"}) submit(id);
  engine.down(0, true, {"a", "b", "a", "b"});  // two steps
  submit("d");
  engine.told();
  engine.up(0);
  EXPECT_THAT(engine.told(), ElementsAre("add a alone"));
  submit("e");
  engine.token(0, "a", 'x');
  engine.token(0, "a", 'x');
  EXPECT_THAT(engine.told(), IsEmpty());
  engine.token(0, "a", 'x');
  EXPECT_THAT(engine.told(), ElementsAre("abort a", "add b alone"));  // it makes way
  clear("b");
  EXPECT_THAT(engine.told(), ElementsAre("add a+3", "add c", "add d", "add e"));
}

TEST_F(EngineCoreReplicas, ASecondCrashEndsARequestAndInnocentsGoOn) {
  engine.up(0);
  submit("a");
  submit("poison");
  engine.down(0, true, {"a", "poison"});
  engine.up(0);
  clear("a");
  EXPECT_THAT(engine.told().back(), "add poison alone");
  engine.chunks(kAnn);
  engine.down(0, true, {"poison"});
  EXPECT_EQ(engine.error(kAnn), "internal_error");
  engine.up(0);
  EXPECT_THAT(engine.told(), ElementsAre("add a+3"));
  engine.down(0, true, {"a"});  // cleared: this is its first
  engine.up(0);
  EXPECT_THAT(engine.told(), ElementsAre("add a+3 alone"));
}

TEST_F(EngineCoreReplicas, AKillFromOutsideIsNobodysFault) {
  engine.up(0);
  submit("a");
  for (int i = 0; i < 5; ++i) {
    engine.down(0, false, {"a"});
    engine.up(0);
  }
  EXPECT_EQ(engine.told().back(), "add a");
  engine.down(0, true, {"a"});
  for (int i = 0; i < 5; ++i) {  // while it is on trial
    engine.up(0);
    EXPECT_EQ(engine.told().back(), "add a alone");
    engine.down(0, false, {"a"});
  }
  EXPECT_EQ(engine.core().num_unfinished(), 1u);
}

TEST_F(EngineCoreReplicas, ACrashOfWhatRanBeforeIsNotTheTrialsFault) {
  engine.up(0);
  submit("poison");
  submit("a");
  engine.down(0, true, {"poison", "a"});
  engine.up(0);
  engine.core().cancel("poison", engine.now);
  EXPECT_THAT(engine.told().back(), "add a alone");
  engine.down(0, true, {"poison"});  // its step was still in flight
  engine.up(0);
  EXPECT_THAT(engine.told(), ElementsAre("add a alone"));
  clear("a");
  EXPECT_EQ(engine.core().num_unfinished(), 1u);
}

TEST_F(EngineCoreReplicas, OtherReplicasTakeTheOthersMeanwhile) {
  engine.up(0);
  engine.up(1);
  submit("a");
  submit("b");
  engine.told(1);
  engine.down(0, true, {"a"});
  submit("c");
  EXPECT_THAT(engine.told(1), ElementsAre("add c"));
  engine.up(0);
  EXPECT_EQ(engine.told(0).back(), "add a alone");
  submit("d");
  EXPECT_THAT(engine.told(1), ElementsAre("add d"));
  EXPECT_THAT(engine.told(0), IsEmpty());
}

TEST_F(EngineCoreReplicas, SuspectsThatEndMakeWay) {
  engine.up(0);
  for (const char* id : {"a", "b", "c", "d"}) submit(id);
  engine.down(0, true, {"a", "b", "c", "d"});
  engine.core().cancel("b", engine.now);  // in the line
  engine.told();
  engine.up(0);
  EXPECT_THAT(engine.told(), ElementsAre("add a alone"));
  engine.core().cancel("a", engine.now);
  EXPECT_THAT(engine.told(), ElementsAre("abort a", "add c alone"));
  engine.step(0, engine.output("c", 2));
  EXPECT_THAT(engine.told(), ElementsAre("abort c", "add d alone"));
}

TEST_F(EngineCoreReplicas, GivingUpEndsEverything) {
  engine.up(0);
  submit("running");
  submit("suspect");
  engine.down(0, true, {"suspect"});
  engine.reserve(kAnn, "preparing");
  engine.chunks(kAnn);
  engine.core().give_up("no workers", engine.now);
  engine.core().check_integrity();
  for (const auto& chunk : engine.chunks(kAnn))
    EXPECT_EQ(chunk.error().type(), "unavailable_error");
  EXPECT_EQ(engine.core().num_unfinished(), 1u);
  engine.core().prepared("preparing", small_request(), engine.now);
  EXPECT_EQ(engine.error(kAnn), "unavailable_error");
  EXPECT_THROW(engine.reserve(kAnn, "late"), InputError);
}

TEST_F(EngineCoreReplicas, Information) {
  engine.up(0);
  submit("a");
  engine.core().drain();
  proto::ServerInfo info;
  engine.core().fill_info(info, engine.now);
  EXPECT_EQ(info.num_requests(), 1);
  EXPECT_TRUE(info.draining());
  ASSERT_EQ(info.replicas_size(), 2);
  EXPECT_TRUE(info.replicas(0).up());
  EXPECT_EQ(info.replicas(0).num_requests(), 1);
  EXPECT_FALSE(info.replicas(1).up());
}

}  // namespace
}  // namespace tandem::engine_core_replicas_test
