// Sessions of /v1/realtime beside each other.
#include <gtest/gtest.h>

#include "tests/support/network/live_server.h"

namespace tandem::live_sessions_test {
namespace {

using test::LiveServer;

TEST(LiveSessions, AreCounted) {
  LiveServer s;
  s.config.max_live_sessions = 2;
  const auto first = s.open(), second = s.open();
  EXPECT_EQ(s.open()->status(), 429);
  first->gone();
  EXPECT_EQ(s.open()->status(), 101);
  EXPECT_EQ(s.open()->status(), 429);
}

// A window is cut when its turn comes, with all that has been said by then.
TEST(LiveSessions, TakeTurns) {
  LiveServer s;
  const auto first = s.open();
  s.update({{"turn_detection", nullptr}});
  s.append(1);
  const auto second = s.open();
  s.update({{"turn_detection", nullptr}});
  s.append(1);
  EXPECT_EQ(s.engine.requests.size(), 1u) << "the first one's is under way";
  s.append(0.5);
  proto::RequestChunk chunk;
  s.add(chunk, 0, " Ja.", 0, 1, true);
  chunk.set_finished(true);
  s.engine.callbacks.at(s.engine.requests[0].id)(chunk);
  first->run_posted();
  second->run_posted();
  ASSERT_EQ(s.engine.requests.size(), 2u);
  EXPECT_EQ(s.sound().file().size(), 44u + 72000u);
  const auto third = s.open();
  s.update({{"turn_detection", nullptr}});
  s.append(1);
  EXPECT_EQ(s.engine.requests.size(), 2u);
  second->gone();
  third->run_posted();
  EXPECT_EQ(s.engine.requests.size(), 3u) << "a session that has gone keeps no place";
  third->gone();
  EXPECT_EQ(s.context.live_turns.num_under_way(), 0);
  s.context.live_turns.check_integrity();
}

}  // namespace
}  // namespace tandem::live_sessions_test
