#include "actors/unread_queue.h"

#include <gtest/gtest.h>

#include <thread>

namespace tandem::actors {
namespace {

TEST(UnreadQueue, InOrderAndOnlyWhileItIsOpen) {
  UnreadQueue queue;
  EXPECT_FALSE(queue.enter(
      "early", [] {}, 1));
  queue.set_open(true);
  int turns = 0;
  EXPECT_TRUE(queue.enter(
      "a", [&] { ++turns; }, 2));
  EXPECT_TRUE(queue.enter(
      "b", [&] { ++turns; }, 3));
  queue.leave("a", 4);
  queue.set_open(false);
  EXPECT_FALSE(queue.enter(
      "late", [] {}, 5));
  queue.leave("b", 6);  // whoever is in may leave all the same
  const auto events = queue.take();
  ASSERT_EQ(events.size(), 4u);
  const char* ids[] = {"a", "b", "a", "b"};
  const double times[] = {2, 3, 4, 6};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(events[i].id, ids[i]);
    EXPECT_EQ(events[i].at, times[i]);
    EXPECT_EQ(events[i].on_turn != nullptr, i < 2);
    if (events[i].on_turn) events[i].on_turn();
  }
  EXPECT_EQ(turns, 2);
  EXPECT_TRUE(queue.take().empty());
}

TEST(UnreadQueue, NothingIsLostBetweenThreads) {
  UnreadQueue queue;
  queue.set_open(true);
  constexpr int kEach = 5000;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&queue, t] {
      for (int i = 0; i < kEach; ++i)
        EXPECT_TRUE(queue.enter(
            std::to_string(t), [] {}, i));
    });
  std::vector<double> seen(3, -1);
  for (int left = 3 * kEach; left > 0;)
    for (const auto& event : queue.take()) {
      double& last = seen[static_cast<size_t>(std::stoi(event.id))];
      EXPECT_EQ(event.at, last + 1);
      last = event.at;
      --left;
    }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tandem::actors
