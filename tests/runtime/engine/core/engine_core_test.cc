// EngineCore and its clients: admission, streams, ends, time. Replicas:
// engine_core_replicas_test.cc.

#include "runtime/engine/core/engine_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/engine/engine_core_driver.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::EngineCoreDriver;
using testing_support::letter;
using testing_support::small_request;

constexpr ClientId kAnn = 1, kBob = 2;

class EngineCoreTest : public ::testing::Test {
 protected:
  EngineCoreTest() {
    engine.core().client_connected(kAnn);
    engine.core().client_connected(kBob);
    engine.up();
  }

  template <class Action>
  static ErrorKind refused(const Action& action, const std::string& param = "") {
    try {
      action();
    } catch (const InputError& error) {
      EXPECT_EQ(error.param(), param);
      return error.kind();
    }
    ADD_FAILURE() << "accepted";
    return ErrorKind::kInternal;
  }

  EngineCoreDriver engine{
      {.num_replicas = 1, .max_requests = 3, .orphan_timeout = 5, .retention = 10}};
};

TEST_F(EngineCoreTest, ARequestFromSubmissionToAcknowledgement) {
  engine.submit(kAnn, "a", small_request(1, 3));
  EXPECT_THAT(engine.told(), ElementsAre("add a"));
  for (const char c : {'x', 'y', 'z'}) engine.token(0, "a", c);
  EXPECT_THAT(engine.told(), ElementsAre("abort a"));
  const auto chunks = engine.chunks(kAnn);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_TRUE(chunks[0].has_inputs());
  EXPECT_FALSE(chunks[1].has_inputs());
  for (int i = 0; i < 3; ++i) {
    const auto& news = chunks[static_cast<size_t>(i)].outputs(0);
    EXPECT_EQ(news.token_offset(), i);
    EXPECT_EQ(news.text_offset(), i);
    EXPECT_EQ(news.text(), std::string(1, static_cast<char>('x' + i)));
  }
  EXPECT_TRUE(chunks[2].finished());
  EXPECT_EQ(chunks[2].outputs(0).finish_reason(), "length");
  EXPECT_TRUE(chunks[2].has_metrics());
  EXPECT_EQ(engine.core().num_unfinished(), 0u);
  EXPECT_FALSE(engine.core().idle());  // the last chunk may be lost
  engine.acknowledge(kAnn);
  EXPECT_TRUE(engine.core().idle());
  EXPECT_EQ(engine.core().num_requests(), 0u);
  engine.tick(1);
  EXPECT_THAT(engine.chunks(kAnn), IsEmpty());
}

TEST_F(EngineCoreTest, WhatIsRefusedAtOnce) {
  engine.submit(kAnn, "a");
  EXPECT_EQ(refused([&] { engine.reserve(kBob, "a"); }, "request_id"), ErrorKind::kInvalidRequest);
  EXPECT_EQ(refused([&] { engine.reserve(kBob, ""); }, "request_id"), ErrorKind::kInvalidRequest);
  EXPECT_EQ(refused([&] { engine.reserve(kBob, std::string(257, 'x')); }, "request_id"),
            ErrorKind::kInvalidRequest);
  for (const double timeout : {-1.0, std::nan("")})
    EXPECT_EQ(refused([&] { engine.reserve(kBob, "b", timeout); }, "timeout"),
              ErrorKind::kInvalidRequest);
  engine.submit(kAnn, "b");
  engine.reserve(kBob, "c");
  EXPECT_EQ(refused([&] { engine.reserve(kBob, "d"); }), ErrorKind::kOverloaded);
  engine.core().cancel("c", engine.now);
  engine.reserve(kBob, "d");
  EXPECT_EQ(engine.core().num_unfinished(), 3u);
}

TEST_F(EngineCoreTest, ClientsThatDoNotAcknowledgeDoNotFillTheMemory) {
  for (int i = 0; i < 6; ++i) {
    engine.submit(kAnn, "a" + std::to_string(i));
    engine.step(0, engine.output("a" + std::to_string(i), 2));
  }
  EXPECT_EQ(engine.core().num_unfinished(), 0u);
  EXPECT_EQ(refused([&] { engine.reserve(kBob, "b"); }), ErrorKind::kOverloaded);
  engine.acknowledge(kAnn);
  engine.reserve(kBob, "b");
}

TEST_F(EngineCoreTest, DrainingTakesNothingNewAndEndsWhatIsThere) {
  engine.submit(kAnn, "a");
  engine.core().drain();
  EXPECT_EQ(refused([&] { engine.reserve(kBob, "b"); }), ErrorKind::kUnavailable);
  EXPECT_FALSE(engine.core().idle());
  engine.step(0, engine.output("a", 2));
  engine.acknowledge(kAnn);
  EXPECT_TRUE(engine.core().draining() && engine.core().idle());
}

TEST_F(EngineCoreTest, APreparationThatFails) {
  engine.reserve(kAnn, "a");
  engine.core().failed("a", invalid_request("prompt", "is no text"), engine.now);
  EXPECT_EQ(engine.error(kAnn), "invalid_request_error");
  EXPECT_THAT(engine.told(), IsEmpty());
  engine.acknowledge(kAnn);
  EXPECT_EQ(engine.core().num_requests(), 0u);
}

TEST_F(EngineCoreTest, APreparationDoesNotReachALaterRequestOfThatId) {
  engine.reserve(kAnn, "a");
  engine.core().cancel("a", engine.now);
  EXPECT_EQ(refused([&] { engine.reserve(kAnn, "a"); }, "request_id"), ErrorKind::kInvalidRequest);
  engine.core().prepared("a", small_request(), engine.now);
  EXPECT_EQ(engine.core().num_requests(), 0u);
  engine.reserve(kAnn, "a");
  engine.core().cancel("a", engine.now);
  engine.core().failed("a", invalid_request("prompt", ""), engine.now);
  engine.submit(kAnn, "a");
  engine.core().failed("a", invalid_request("prompt", ""), engine.now);  // of nobody
  EXPECT_EQ(engine.core().num_unfinished(), 1u);
}

TEST_F(EngineCoreTest, CancelInEveryPhase) {
  engine.reserve(kAnn, "preparing");
  engine.submit(kAnn, "running");
  EXPECT_THAT(engine.told(), ElementsAre("add running"));
  engine.submit(kAnn, "done");
  engine.step(0, engine.output("done", 2));
  engine.told();
  for (const char* id : {"preparing", "running"}) {
    engine.core().cancel(id, engine.now);
    engine.core().check_integrity();
  }
  EXPECT_THAT(engine.told(), ElementsAre("abort running"));
  engine.core().cancel("done", engine.now);  // too late
  EXPECT_EQ(engine.core().num_requests(), 1u);
  engine.core().cancel("unknown", engine.now);
  engine.down(0, false);
  engine.submit(kAnn, "held");
  engine.core().cancel("held", engine.now);
  EXPECT_EQ(engine.core().num_requests(), 1u);
  engine.up();
  EXPECT_THAT(engine.told(), IsEmpty());
}

TEST_F(EngineCoreTest, DeadlinesEndARequestWithWhatItHas) {
  engine.submit(kAnn, "a", small_request(), 2);
  engine.token(0, "a", 'x');
  engine.chunks(kAnn);
  engine.tick(1.9);
  EXPECT_THAT(engine.chunks(kAnn), IsEmpty());
  engine.told();
  engine.tick(0.2);
  EXPECT_EQ(engine.error(kAnn), "timeout_error");
  EXPECT_THAT(engine.told(), ElementsAre("abort a"));
  engine.token(0, "a", 'y');  // surplus
  EXPECT_THAT(engine.chunks(kAnn), IsEmpty());
}

TEST_F(EngineCoreTest, DeadlinesHoldWhileItIsPreparedAndHeld) {
  engine.down(0, false);
  engine.submit(kAnn, "held", small_request(), 2);
  engine.reserve(kBob, "preparing", 2);
  engine.tick(3);
  EXPECT_EQ(engine.error(kAnn), "timeout_error");
  EXPECT_EQ(engine.error(kBob), "timeout_error");
  engine.core().prepared("preparing", small_request(), engine.now);
  engine.up();
  EXPECT_THAT(engine.told(), IsEmpty());
}

TEST_F(EngineCoreTest, ARequestOutlivesItsConnection) {
  engine.submit(kAnn, "a");
  engine.token(0, "a", 'x');
  engine.core().client_gone(kAnn, engine.now);
  engine.token(0, "a", 'y');
  engine.tick(4);
  engine.chunks(kBob);
  engine.resume(kBob, "a", 1, 1);
  auto chunks = engine.chunks(kBob);
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_TRUE(chunks[0].has_inputs());
  EXPECT_EQ(chunks[0].outputs(0).token_offset(), 1);
  EXPECT_EQ(chunks[0].outputs(0).text(), "y");
  engine.tick(20);  // it has a client again
  engine.token(0, "a", 'z');
  chunks = engine.chunks(kBob);
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0].outputs(0).token_offset(), 2);
}

TEST_F(EngineCoreTest, AResumptionTakesTheStreamFromItsClient) {
  engine.submit(kAnn, "a");
  engine.token(0, "a", 'x');
  engine.chunks(kAnn);
  engine.resume(kBob, "a", 0, 0);
  engine.core().client_gone(kAnn, engine.now);  // noticed late
  engine.step(0, engine.output("a", 2));
  EXPECT_EQ(engine.chunks(kBob).size(), 2u);
  EXPECT_THAT(engine.chunks(kAnn), IsEmpty());
  engine.acknowledge(kAnn);
  EXPECT_EQ(engine.core().num_requests(), 1u);
  engine.acknowledge(kBob);
  EXPECT_EQ(engine.core().num_requests(), 0u);
}

TEST_F(EngineCoreTest, AnAcknowledgementOfWhoLostTheStreamEndsNothing) {
  engine.submit(kAnn, "a");
  engine.step(0, engine.output("a", 2));
  engine.resume(kBob, "a", 0, 0);
  engine.acknowledge(kAnn);
  EXPECT_EQ(engine.core().num_requests(), 1u);
}

TEST_F(EngineCoreTest, ResumptionsThatMakeNoSense) {
  EXPECT_EQ(refused([&] { engine.resume(kAnn, "a", 0, 0); }, "request_id"), ErrorKind::kNotFound);
  engine.submit(kAnn, "a");
  engine.token(0, "a", 'x');
  EXPECT_EQ(refused([&] { engine.resume(kBob, "a", 2, 0); }, "received"),
            ErrorKind::kInvalidRequest);
  engine.chunks(kAnn);
  engine.token(0, "a", 'y');  // nothing has changed
  EXPECT_EQ(engine.chunks(kAnn).size(), 1u);
}

TEST_F(EngineCoreTest, OrphansAreGivenUp) {
  engine.submit(kAnn, "a");
  engine.told();
  engine.core().client_gone(kAnn, engine.now);
  engine.tick(4.9);
  EXPECT_EQ(engine.core().num_requests(), 1u);
  engine.tick(0.2);
  EXPECT_EQ(engine.core().num_requests(), 0u);
  EXPECT_THAT(engine.told(), ElementsAre("abort a"));
}

TEST_F(EngineCoreTest, FinishedRequestsWaitForTheirClient) {
  engine.submit(kAnn, "before");
  engine.submit(kAnn, "after");
  engine.step(0, engine.output("before", 2));
  engine.core().client_gone(kAnn, engine.now);
  engine.tick(4);
  engine.step(0, engine.output("after", 2));
  EXPECT_TRUE(engine.core().idle());
  engine.tick(5.9);
  EXPECT_EQ(engine.core().num_requests(), 2u);
  engine.resume(kBob, "before", 0, 0);
  EXPECT_TRUE(engine.chunks(kBob)[0].finished());
  engine.core().client_gone(kBob, engine.now);  // without an acknowledgement
  engine.tick(4.2);
  EXPECT_EQ(engine.core().num_requests(), 1u);  // "after": 10 s since it finished
  engine.tick(10);
  EXPECT_EQ(engine.core().num_requests(), 0u);
}

TEST_F(EngineCoreTest, OnlySoManyFinishedRequestsWait) {
  EngineCoreDriver small({.retention = 1000, .max_retained = 2});
  small.core().client_connected(kAnn);
  small.up();
  for (const char* id : {"a", "b", "c"}) {
    small.submit(kAnn, id);
    small.step(0, small.output(id, 2));
  }
  small.core().client_gone(kAnn, small.now);
  small.tick(0);
  EXPECT_EQ(small.core().num_requests(), 2u);
}

TEST_F(EngineCoreTest, AClientWithoutCreditGetsEverythingLater) {
  engine.submit(kAnn, "a", small_request(1, 100));
  for (int i = 0; i < 30; ++i) engine.token(0, "a", 'x');
  EXPECT_EQ(engine.chunks(kAnn).size(), ClientWindow::kMaxUnacknowledged);
  engine.core().acknowledge(kAnn, 1, engine.now);
  const auto chunks = engine.chunks(kAnn);
  ASSERT_EQ(chunks.size(), 1u);
  EXPECT_EQ(chunks[0].outputs(0).token_offset(), 16);
  EXPECT_EQ(chunks[0].outputs(0).token_ids_size(), 14);
  engine.step(0, engine.output("a", 2));  // the end waits as well
  EXPECT_THAT(engine.chunks(kAnn), IsEmpty());
  engine.acknowledge(kAnn);
  EXPECT_TRUE(engine.chunks(kAnn).at(0).finished());
  engine.core().acknowledge(kAnn, 1'000'000, engine.now);  // more than there was
  EXPECT_EQ(engine.core().num_requests(), 0u);
  engine.core().acknowledge(77, 1, engine.now);  // nobody
}

TEST_F(EngineCoreTest, OneStepIsOneMessage) {
  engine.submit(kAnn, "a");
  engine.submit(kAnn, "b");
  auto step = engine.output("a", letter('x'));
  step.MergeFrom(engine.output("b", letter('y')));
  engine.step(0, step);
  EXPECT_EQ(engine.last_number(kAnn), 1u);
  EXPECT_EQ(engine.chunks(kAnn).size(), 2u);
}

TEST_F(EngineCoreTest, LogProbabilitiesComeWithTheirText) {
  auto request = small_request();
  request.params.set_logprobs(0);
  engine.submit(kAnn, "a", request);
  auto step = engine.output("a", letter('x'));
  step.mutable_outputs(0)->mutable_samples(0)->mutable_logprobs()->add_top()->set_token_id(
      letter('x'));
  engine.step(0, step);
  EXPECT_EQ(engine.chunks(kAnn)[0].outputs(0).logprobs(0).top(0).decoded_token(), "x");
}

}  // namespace
}  // namespace tandem
