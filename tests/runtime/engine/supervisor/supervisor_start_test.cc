// SupervisorCore: groups that do not come up, for want of a word or of what they need.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime/engine/supervisor/supervisor_fixture.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using State = SupervisorCore::State;

TEST_F(SupervisorCoreTest, ARankThatSaysNothingIsNotWaitedFor) {
  config.startup_timeout = 600;
  config.hello_timeout = 3;
  core().start(now);
  hello(0);
  heard();
  tick(2.9);
  EXPECT_THAT(heard(), IsEmpty());
  tick(0.2);
  EXPECT_THAT(heard(), ElementsAre("stop 1"));
  EXPECT_NE(core().last_cause().find("no sign of life in 3"), std::string::npos);
  EXPECT_NE(core().last_cause().find("rank 1"), std::string::npos);
  exited();
  tick(1);
  EXPECT_THAT(heard(), ElementsAre("launch 2"));
  // The next one has its own time; and who has said hello may load for long.
  tick(2.9);
  for (const int rank : {0, 1}) hello(rank);
  EXPECT_THAT(heard(), ElementsAre("setup 0", "setup 1"));
  tick(500);
  EXPECT_THAT(heard(), IsEmpty());
  EXPECT_EQ(core().state(), State::kStarting);
}

TEST_F(SupervisorCoreTest, WhatIsWantingAtTheStartIsNotTriedAgain) {
  core().start(now);
  core().launch_exited(1, "ended with status 71", now, DeathKind::kWant);
  EXPECT_THAT(heard(), ElementsAre("launch 1", "stop 1", "bad input"));
  EXPECT_NE(given_up.find("cannot start: ended with status 71"), std::string::npos) << given_up;
  EXPECT_EQ(core().state(), State::kGivenUp);
}

TEST_F(SupervisorCoreTest, WhatIsWantingLaterMayBeThereAgain) {
  start_and_come_up();
  die();
  exited();
  tick(1);
  heard();
  core().launch_exited(2, "ended with status 71", now, DeathKind::kWant);
  EXPECT_EQ(core().state(), State::kBackingOff);
  tick(2);
  EXPECT_THAT(heard(), ElementsAre("stop 2", "launch 3"));
}

TEST_F(SupervisorCoreTest, AModelThatWasLoadedOnceIsTriedAgain) {
  start_and_come_up();
  die();
  exited();
  tick(1);
  hello(0);
  hello(1);
  heard();
  auto failed = report(0);
  failed.mutable_failed()->set_what("out of memory");
  failed.mutable_failed()->set_invalid_model(true);
  send(failed);
  EXPECT_THAT(heard(), ElementsAre("stop 2"));
  exited();
  EXPECT_EQ(core().state(), State::kBackingOff);
}

}  // namespace
}  // namespace tandem
