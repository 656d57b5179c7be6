// SupervisorCore: a group's life, its deaths, and the bound on its restarts.

#include "runtime/engine/supervisor_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/runtime/engine/supervisor/supervisor_fixture.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using State = SupervisorCore::State;

TEST_F(SupervisorCoreTest, FromTheLaunchToTheFirstStep) {
  core().start(now);
  EXPECT_THAT(heard(), ElementsAre("launch 1"));
  hello(1);
  EXPECT_THAT(heard(), IsEmpty());  // loading begins with a meeting of all
  hello(0);
  EXPECT_THAT(heard(), ElementsAre("setup 0", "setup 1"));
  EXPECT_EQ(last.setup().config().loading().model(), "model");
  EXPECT_EQ(last.setup().rank(), 1);
  EXPECT_EQ(last.setup().size(), 2);
  auto r = report(0);
  r.mutable_loading()->set_done(3);
  r.mutable_loading()->set_total(8);
  send(r);
  EXPECT_THAT(heard(), ElementsAre("loading 3/8"));
  loaded(0, 10, 4);
  EXPECT_THAT(heard(), IsEmpty());
  loaded(1, 9, 5);
  EXPECT_THAT(heard(), ElementsAre("start 0", "start 1"));
  EXPECT_EQ(last.start().num_device_blocks(), 9);
  EXPECT_EQ(last.start().num_host_blocks(), 4);
  ready(1);
  EXPECT_EQ(core().state(), State::kStarting);
  ready(0);
  EXPECT_THAT(heard(), ElementsAre("up 1: 9+4"));
}

TEST_F(SupervisorCoreTest, ReportsThatMakeNoSense) {
  core().start(now);
  const auto refused = [&](const proto::WorkerReport& r, const std::string& field) {
    try {
      core().worker_report(r, now);
      ADD_FAILURE() << field << " is accepted";
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find(field), std::string::npos) << e.what();
    }
    core().check_integrity();
  };
  auto r = report(2);
  r.mutable_hello()->set_protocol_version(kProtocolVersion);
  refused(r, "rank");
  r.set_rank(-1);
  refused(r, "rank");
  r.set_rank(0);
  r.mutable_hello()->set_protocol_version(99);
  refused(r, "protocol_version");
  refused(report(0), "report");
  for (const char* what : {"loading", "loaded", "ready"}) {  // before hello
    auto early = report(0);
    if (*what == 'r') early.mutable_ready();
    if (what == std::string("loading")) early.mutable_loading();
    if (what == std::string("loaded")) early.mutable_loaded()->set_num_device_blocks(1);
    refused(early, what);
  }
  hello(0);
  r = report(0);
  r.mutable_hello()->set_protocol_version(kProtocolVersion);
  refused(r, "hello");
  r.mutable_loaded()->set_num_device_blocks(0);
  refused(r, "loaded");
  r.mutable_loaded()->set_num_device_blocks(5);
  r.mutable_loaded()->set_num_host_blocks(-1);
  refused(r, "loaded");
  loaded(0);
  r.mutable_ready();
  refused(r, "ready");  // before the start
  hello(1);
  loaded(1);
  ready(0);
  ready(1);
  refused(r, "ready");
  r.mutable_step();
  refused(r, "report");
}

TEST_F(SupervisorCoreTest, ADeathReplacesTheWholeGroup) {
  start_and_come_up();
  die();
  EXPECT_THAT(heard(), ElementsAre("down 1: rank 1: gone", "stop 1"));
  EXPECT_EQ(core().state(), State::kStopping);
  die();  // the other one, for it
  EXPECT_THAT(heard(), IsEmpty());
  exited();
  EXPECT_EQ(core().state(), State::kBackingOff);
  tick(0.9);
  EXPECT_THAT(heard(), IsEmpty());
  tick(0.2);
  EXPECT_THAT(heard(), ElementsAre("launch 2"));
  EXPECT_EQ(core().restarts(), 1);
}

TEST_F(SupervisorCoreTest, WhoeverIsFirstToTellTellsOfTheCrash) {
  start_and_come_up();
  die(DeathKind::kCrash);
  EXPECT_EQ(heard()[0], "down 1 crashed: rank 1: gone");
  exited();
  tick(1);
  come_up();
  core().launch_exited(2, "signal 11", now, DeathKind::kCrash);
  EXPECT_EQ(heard()[0], "down 2 crashed: signal 11");
  EXPECT_EQ(core().state(), State::kBackingOff);
  tick(1);
  come_up();
  auto failed = report(0);
  failed.mutable_failed()->set_what("a peer is lost");
  core().worker_report(failed, now, DeathKind::kCrash);
  EXPECT_EQ(heard()[0], "down 3 crashed: rank 0: a peer is lost");
}

TEST_F(SupervisorCoreTest, OldGenerationsAreIgnored) {
  start_and_come_up();
  die();
  exited();
  tick(1);
  heard();
  EXPECT_FALSE(hello(0, 1));
  core().worker_down(1, 0, "gone", DeathKind::kCrash, now);
  core().fault(1, "late", DeathKind::kCrash, now);
  core().launch_exited(1, "late", now);
  EXPECT_THAT(heard(), IsEmpty());
  EXPECT_EQ(core().state(), State::kStarting);
  come_up();
  EXPECT_FALSE(hello(0, 3));
}

TEST_F(SupervisorCoreTest, WhileItStopsNothingElseCounts) {
  start_and_come_up();
  core().fault(1, "a step took too long", DeathKind::kUnknown, now);
  EXPECT_THAT(heard(), ElementsAre("down 1: a step took too long", "stop 1"));
  EXPECT_FALSE(ready(0));
  tick(1.9);
  EXPECT_THAT(heard(), IsEmpty());
  tick(0.2);
  EXPECT_THAT(heard(), ElementsAre("stop 1"));  // once more
  tick(2);
  EXPECT_THAT(heard(), ElementsAre("stop 1"));
  exited();
  exited();
  EXPECT_EQ(core().restarts(), 0);  // it is due
  tick(1);
  EXPECT_EQ(core().restarts(), 1);
}

TEST_F(SupervisorCoreTest, AGroupThatDoesNotComeUpInTime) {
  core().start(now);
  hello(0);
  heard();
  tick(9.9);
  EXPECT_THAT(heard(), IsEmpty());
  tick(0.2);
  EXPECT_THAT(heard(), ElementsAre("stop 1"));  // it was never up
  exited();
  tick(1);
  EXPECT_THAT(heard(), ElementsAre("launch 2"));
}

TEST_F(SupervisorCoreTest, BackoffDoublesUntilSomethingComesUp) {
  config.max_restarts = 100;
  core().start(now);
  for (const double backoff : {1, 2, 4, 4}) {
    exited();
    heard();
    tick(backoff - 0.1);
    EXPECT_THAT(heard(), ::testing::Not(::testing::Contains(::testing::StartsWith("launch"))));
    tick(0.2);
    EXPECT_THAT(heard(), ElementsAre(::testing::StartsWith("launch")));
  }
  EXPECT_EQ(core().restarts(), 4);  // though it was never up
  come_up();
  die();
  exited();
  heard();
  tick(1);
  EXPECT_THAT(heard(), ElementsAre("launch 6"));
}

TEST_F(SupervisorCoreTest, RestartsAreBounded) {
  start_and_come_up();
  for (int i = 0; i < 3; ++i) {
    die();
    exited();
    tick(1);
    come_up();
  }
  die();
  exited();
  EXPECT_EQ(core().state(), State::kGivenUp);
  EXPECT_TRUE(core().gone());
  EXPECT_EQ(heard().back(), "give up");
  EXPECT_NE(given_up.find("3 times in 60 s; the last cause: rank 1: gone"), std::string::npos);
  tick(100);
  core().shut_down(now);
  EXPECT_THAT(heard(), IsEmpty());
}

TEST_F(SupervisorCoreTest, RestartsThatAreLongAgoDoNotCount) {
  start_and_come_up();
  for (int i = 0; i < 10; ++i) {
    die();
    exited();
    tick(1);
    come_up();
    tick(25);
  }
  EXPECT_EQ(core().restarts(), 10);
}

TEST_F(SupervisorCoreTest, ABadModelIsNotTriedAgain) {
  core().start(now);
  hello(0);
  hello(1);
  auto failed = report(0);
  failed.mutable_failed()->set_what("config.json: no");
  failed.mutable_failed()->set_invalid_model(true);
  send(failed);
  EXPECT_THAT(heard(), ElementsAre("launch 1", "setup 0", "setup 1", "stop 1", "bad input"));
  EXPECT_EQ(given_up, "config.json: no");
  exited();
  tick(100);
  EXPECT_THAT(heard(), IsEmpty());
}

TEST_F(SupervisorCoreTest, WhoCannotRelaunchGivesUp) {
  config.can_relaunch = false;
  start_and_come_up();
  die();
  exited();
  EXPECT_EQ(heard().back(), "give up");
}

TEST_F(SupervisorCoreTest, ShutDownInEveryState) {
  core().shut_down(now);  // idle
  EXPECT_TRUE(core().gone());
  EXPECT_THAT(heard(), IsEmpty());
}
TEST_F(SupervisorCoreTest, ShutDownWhileItStarts) {
  core().start(now);
  core().shut_down(now);
  EXPECT_THAT(heard(), ElementsAre("launch 1", "stop 1"));
  EXPECT_FALSE(core().gone());
  exited();
  EXPECT_TRUE(core().gone());
  tick(100);
  EXPECT_THAT(heard(), IsEmpty());
}
TEST_F(SupervisorCoreTest, ShutDownWhileItRuns) {
  start_and_come_up();
  core().shut_down(now);
  EXPECT_THAT(heard(), ElementsAre("down 1: shut down", "stop 1"));
  core().shut_down(now);
  EXPECT_THAT(heard(), IsEmpty());
  tick(2.1);
  EXPECT_THAT(heard(), ElementsAre("stop 1"));
  exited();
  EXPECT_TRUE(core().gone());
  EXPECT_EQ(core().restarts(), 0);
}
TEST_F(SupervisorCoreTest, ShutDownWhileItStopsOrWaits) {
  start_and_come_up();
  die();
  core().shut_down(now);
  exited();
  EXPECT_TRUE(core().gone());
  EXPECT_EQ(core().restarts(), 0);
}
TEST_F(SupervisorCoreTest, ShutDownWhileItBacksOff) {
  start_and_come_up();
  die();
  exited();
  core().shut_down(now);
  core().check_integrity();
  EXPECT_EQ(core().restarts(), 0);
  EXPECT_TRUE(core().gone());
  heard();
  tick(100);
  EXPECT_THAT(heard(), IsEmpty());
}

}  // namespace
}  // namespace tandem
