// EngineCore's use of Admission (admission_test.cc has its rules): who is refused, with what, and
// that every way in which a request can end gives its room back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/engine/engine_core_driver.h"

namespace tandem::engine_core_admission_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::EngineCoreDriver;
using testing_support::letter;
using testing_support::small_request;

constexpr ClientId kAnn = 1;

class EngineCoreAdmissionTest : public ::testing::Test {
 protected:
  EngineCoreAdmissionTest() {
    engine.core().client_connected(kAnn);
    engine.up();
  }

  // Nothing if the request came in.
  std::optional<OverloadError> refusal(const std::string& id, double timeout = 0,
                                       const std::string& batch = "") {
    proto::SubmitRequest submit;
    submit.set_request_id(id);
    submit.set_timeout(timeout);
    submit.set_batch(batch);
    try {
      engine.core().reserve(kAnn, submit, engine.now);
    } catch (const OverloadError& error) {
      engine.core().check_integrity();
      return error;
    }
    engine.core().prepared(id, small_request(), engine.now);
    engine.core().check_integrity();
    return std::nullopt;
  }
  // `count` requests a second, each with 8 tokens, for two seconds: two are always there.
  void learn(int count) {
    engine.submit(kAnn, "keeps the batch full", small_request(1, 1000));
    for (int i = 0; i < 2 * count; ++i) {
      const std::string id = "learn " + std::to_string(i);
      engine.submit(kAnn, id);
      engine.now += 1.0 / count;
      for (int t = 0; t < 8; ++t) engine.token(0, id, 'x');
      engine.acknowledge(kAnn);
    }
    engine.core().cancel("keeps the batch full", engine.now);
    engine.told();
    engine.chunks(kAnn);
  }
  proto::ServerInfo info() {
    proto::ServerInfo out;
    engine.core().fill_info(out, engine.now);
    return out;
  }
  // How many come in before one is refused.
  int room(const std::string& prefix) {
    for (int i = 0; i < 1000; ++i)
      if (refusal(prefix + std::to_string(i))) return i;
    ADD_FAILURE() << "without bound";
    return 1000;
  }

  EngineCoreDriver engine{{.admission = {.max_queue_time = 1, .batch = 2, .most_unmeasured = 4}}};
};

TEST_F(EngineCoreAdmissionTest, RefusedAtOnceWithTheTime) {
  learn(10);
  EXPECT_EQ(info().refused_queue_time(), 0);
  const int taken = room("a");
  EXPECT_GE(taken, 9);
  EXPECT_LE(taken, 13);
  engine.told();
  const auto refused = refusal("b");
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind(), ErrorKind::kOverloaded);
  EXPECT_GT(refused->retry_after(), 0);
  EXPECT_LT(refused->retry_after(), 0.5);
  EXPECT_EQ(to_proto(*refused).retry_after(), refused->retry_after());
  EXPECT_THAT(std::string(refused->what()), ::testing::HasSubstr("(--max-queue-time)"));
  EXPECT_THAT(engine.told(), IsEmpty());
  EXPECT_EQ(info().refused_queue_time(), 2);
  EXPECT_GT(info().expected_wait(), 1);
  // Its id is free, and the time was not a lie.
  engine.now += refused->retry_after();
  for (int t = 0; t < 8; ++t) engine.token(0, "a0", 'x');
  for (int t = 0; t < 8; ++t) engine.token(0, "a1", 'x');
  EXPECT_FALSE(refusal("b"));
}

TEST_F(EngineCoreAdmissionTest, ADeadlineThatCannotBeMet) {
  learn(10);
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(refusal("a" + std::to_string(i), 0.8));
  const auto refused = refusal("b", 0.3);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->param(), "timeout");
  EXPECT_FALSE(refusal("b", 3));
  EXPECT_EQ(info().refused_deadline(), 1);
  EXPECT_EQ(info().refused_queue_time(), 0);
}

TEST_F(EngineCoreAdmissionTest, ABatchComesInWithItsFirst) {
  learn(10);
  EXPECT_FALSE(refusal("first"));
  for (int i = 0; i < 50; ++i) EXPECT_FALSE(refusal("part" + std::to_string(i), 0, "first"));
  EXPECT_TRUE(refusal("another"));
  EXPECT_TRUE(refusal("part", 0, "another")) << "whose first was refused";
}

TEST_F(EngineCoreAdmissionTest, EveryEndMakesRoom) {
  learn(10);
  const int all = room("a");
  const auto refill = [&](const std::string& prefix) {
    const int now = room(prefix);
    EXPECT_GE(now, 1) << prefix;
    for (int i = 0; i < now; ++i) engine.core().cancel(prefix + std::to_string(i), engine.now);
  };
  for (const char* id : {"a0", "a1"}) engine.core().cancel(id, engine.now);
  refill("cancelled");
  for (int t = 0; t < 8; ++t) engine.token(0, "a2", 'x');
  refill("finished");
  proto::SchedulerEvent rejected = engine.event(0);
  rejected.mutable_rejected()->set_request_id("a3");
  rejected.mutable_rejected()->set_seq_id(engine.first_seq_id("a3"));
  engine.core().replica_event(rejected, engine.now);
  refill("rejected");
  for (int i = 4; i < all; ++i) engine.core().cancel("a" + std::to_string(i), engine.now);
  engine.core().check_integrity();
  EXPECT_EQ(engine.core().num_unfinished(), 0u);
  EXPECT_EQ(info().expected_wait(), 0);
}

TEST_F(EngineCoreAdmissionTest, WhoeverHasGoneWhileWaitingIsNeverComputed) {
  engine.down(0, false);
  engine.submit(kAnn, "held");
  engine.submit(kAnn, "late", small_request(), 2);
  engine.submit(kAnn, "stays");
  engine.core().cancel("held", engine.now);
  engine.tick(2.1);
  engine.up();
  EXPECT_THAT(engine.told(), ElementsAre("add stays"));
}

// What a replica need not have yet waits here, where its order can change.
TEST(EngineCoreHoldsBack, WhatAReplicaHasNoRoomFor) {
  EngineCoreDriver engine{{.most_at_replica = 2}};
  engine.core().client_connected(kAnn);
  engine.up();
  for (const char* id : {"a", "b", "c", "d", "e"}) engine.submit(kAnn, id, small_request(1, 3));
  EXPECT_THAT(engine.told(), ElementsAre("add a", "add b"));
  proto::ServerInfo info;
  engine.core().fill_info(info, engine.now);
  EXPECT_EQ(info.replicas(0).num_requests(), 2);
  EXPECT_EQ(info.replicas(0).stats().num_waiting(), 3);
  engine.core().cancel("c", engine.now);
  EXPECT_THAT(engine.told(), IsEmpty()) << "the scheduler never knew of it";
  proto::SubmitRequest urgent;
  urgent.set_request_id("urgent");
  urgent.set_priority(-1);
  engine.core().reserve(kAnn, urgent, engine.now);
  engine.core().prepared("urgent", small_request(), engine.now);
  EXPECT_THAT(engine.told(), ElementsAre("add urgent"));
  for (int t = 0; t < 3; ++t) engine.token(0, "a", 'x');
  EXPECT_THAT(engine.told(), ::testing::Not(::testing::Contains("add d"))) << "two are still there";
  engine.core().cancel("urgent", engine.now);
  EXPECT_THAT(engine.told(), ::testing::Contains("add d"));
  // What had begun goes on first, once its replica is up again.
  engine.down(0, false);
  engine.up();
  engine.core().check_integrity();
  const auto told = engine.told();
  EXPECT_THAT(told, ::testing::Not(::testing::Contains("add e")));
  EXPECT_THAT(told, ::testing::Contains("add b"));
}

// Whoever leaves is one client, however many requests it has; and who waits longest may not be
// next.
TEST(EngineCoreHoldsBack, UntilClientsLeave) {
  EngineCoreDriver engine{{.most_at_replica = 1}};
  engine.core().client_connected(kAnn);
  engine.up();
  engine.submit(kAnn, "runs", small_request(1, 1000));
  engine.told();
  const auto prompt = [&](const std::string& id, const std::string& batch) {
    proto::SubmitRequest submit;
    submit.set_request_id(id);
    submit.set_batch(batch);
    engine.core().reserve(kAnn, submit, engine.now);
    engine.core().prepared(id, small_request(), engine.now);
  };
  // Each leaves after four seconds.
  for (int round = 0; round < 20; ++round) {
    const std::string id = "r" + std::to_string(round) + "-";
    prompt(id + "0", "");
    for (int i = 1; i < 4; ++i) prompt(id + std::to_string(i), id + "0");
    engine.tick(4);
    for (int i = 0; i < 4; ++i) engine.core().cancel(id + std::to_string(i), engine.now);
    engine.core().check_integrity();
  }
  prompt("old", "");
  engine.tick(3.9);
  prompt("new", "");
  engine.tick(0.05);
  engine.core().cancel("runs", engine.now);
  EXPECT_THAT(engine.told(), ::testing::Contains("add new"));
  engine.core().check_integrity();
}

// --- Before they are read ------------------------------------------------------------------------

class UnreadRequestsTest : public ::testing::Test {
 protected:
  UnreadRequestsTest() {
    engine.core().client_connected(kAnn);
    engine.up();
    for (const char* id : {"a", "b"}) engine.submit(kAnn, id, small_request(1, 3));
    engine.told();
  }
  void enter(const std::string& id) {
    engine.now += 0.01;
    engine.core().enter_unread(id, engine.now);
    engine.core().check_integrity();
  }
  void cancel(const std::string& id) {
    engine.core().cancel(id, engine.now);
    engine.core().check_integrity();
  }
  std::vector<std::string> called() { return std::exchange(engine.called, {}); }
  int num_requests() {
    proto::ServerInfo info;
    engine.core().fill_info(info, engine.now);
    return info.num_requests();
  }

  static constexpr int kAhead = 8;  // that are called before their replica has room
  EngineCoreDriver engine{{.max_requests = 20, .most_at_replica = 2}};
};

TEST_F(UnreadRequestsTest, AreCalledInTheirOrderAsOthersStart) {
  EXPECT_FALSE(engine.core().crowded());
  for (int i = 0; i < 16; ++i) enter("u" + std::to_string(10 + i));
  EXPECT_TRUE(engine.core().crowded());
  EXPECT_EQ(num_requests(), 18);
  const auto first = called();
  ASSERT_EQ(first.size(), static_cast<size_t>(kAhead));
  EXPECT_EQ(first.front(), "u10");
  EXPECT_EQ(first.back(), "u17");
  // They run in this order, whoever is read first.
  engine.submit(kAnn, "u11");
  engine.submit(kAnn, "u10");
  EXPECT_THAT(engine.told(), IsEmpty()) << "no room yet";
  EXPECT_THAT(called(), IsEmpty());
  cancel("a");
  EXPECT_THAT(engine.told(), ::testing::Contains("add u10"));
  EXPECT_THAT(called(), ElementsAre("u18"));
  cancel("b");
  EXPECT_THAT(engine.told(), ::testing::Contains("add u11"));
  EXPECT_THAT(called(), ElementsAre("u19"));
}

TEST_F(UnreadRequestsTest, WhoLeavesGivesUpItsPlace) {
  for (int i = 0; i < 11; ++i) enter("u" + std::to_string(10 + i));
  called();
  cancel("u19");  // it waits
  cancel("u12");  // it was called
  EXPECT_THAT(called(), ElementsAre("u18"));
  cancel("u10");
  EXPECT_THAT(called(), ElementsAre("u20"));
  EXPECT_EQ(num_requests(), 10);
  // While its text is prepared, too.
  engine.reserve(kAnn, "u11");
  cancel("u11");
  engine.core().failed("u11", InputError(ErrorKind::kTimeout, "given up"), engine.now);
  for (int i = 13; i < 21; ++i) cancel("u" + std::to_string(i));
  EXPECT_EQ(num_requests(), 2);
  EXPECT_FALSE(engine.core().crowded());
}

TEST_F(UnreadRequestsTest, CountAndAreRefusedAsOthers) {
  for (int i = 0; i < 18; ++i) enter("u" + std::to_string(10 + i));
  EXPECT_THROW(enter("more"), OverloadError);
  EXPECT_THROW(enter("u10"), InputError) << "in use";
  EXPECT_THROW(enter("a"), InputError) << "in use";
  EXPECT_THROW(engine.reserve(kAnn, "more"), OverloadError);
  engine.reserve(kAnn, "u10");  // it is in already
  EXPECT_EQ(num_requests(), 20);
  engine.core().check_integrity();
}

// The others do not wait for those who are to be read, nor the other way round.
TEST_F(UnreadRequestsTest, AmongThoseThatAreRead) {
  for (int i = 0; i < 3; ++i) enter("u" + std::to_string(i));
  EXPECT_THAT(called(), ElementsAre("u0", "u1", "u2"));
  for (int i = 0; i < 6; ++i) engine.submit(kAnn, "r" + std::to_string(i));
  enter("u3");
  EXPECT_THAT(called(), IsEmpty()) << "r0 … r4 come first";
  cancel("u0");
  cancel("u1");
  EXPECT_THAT(called(), ElementsAre("u3"));
  cancel("a");
  EXPECT_THAT(engine.told(), ::testing::Contains("add r0"));
  engine.core().check_integrity();
}

TEST_F(UnreadRequestsTest, WhatGoesOnWithoutReplicas) {
  for (int i = 0; i < 12; ++i) enter("u" + std::to_string(10 + i));
  called();
  engine.core().drain();
  EXPECT_THROW(enter("late"), InputError);
  engine.submit(kAnn, "u10");  // it came before
  EXPECT_FALSE(engine.core().idle());
  engine.core().give_up("no workers", engine.now);
  engine.core().check_integrity();
  EXPECT_EQ(called().size(), 4u) << "all of them learn it";
  for (int i = 11; i < 22; ++i)
    EXPECT_THROW(engine.reserve(kAnn, "u" + std::to_string(i)), InputError);
  EXPECT_EQ(num_requests(), 0);
}

// What they turn out to be.
TEST_F(UnreadRequestsTest, ThatWaitLongerOnceTheyAreRead) {
  for (int i = 0; i < 12; ++i) enter("u" + std::to_string(10 + i));
  called();
  engine.submit(kAnn, "u10", small_request(4, 1000));
  engine.submit(kAnn, "u11");
  engine.reserve(kAnn, "u12", 5);
  engine.core().failed("u13", InputError(ErrorKind::kTimeout, "of nobody"), engine.now);
  EXPECT_THAT(called(), IsEmpty()) << "a large one is still the next";
  engine.tick(6);
  EXPECT_EQ(engine.error(kAnn), "timeout_error");
  EXPECT_THAT(called(), ElementsAre("u18"));
}

TEST_F(EngineCoreAdmissionTest, PreparedTooLate) {
  engine.reserve(kAnn, "a", 2);
  engine.now += 3;  // no tick yet
  engine.core().prepared("a", small_request(), engine.now);
  EXPECT_THAT(engine.told(), IsEmpty());
  EXPECT_EQ(engine.error(kAnn), "timeout_error");
}

}  // namespace
}  // namespace tandem::engine_core_admission_test
