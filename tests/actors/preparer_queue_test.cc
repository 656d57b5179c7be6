// PreparerQueue: who takes which request.
#include "actors/preparer_queue.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem::actors {
namespace {

// Jobs are handed out until none is left: "preparer:job" each.
std::string hand_out(PreparerQueue<int>& queue) {
  std::string out;
  while (const auto a = queue.next())
    out += (out.empty() ? "" : " ") + std::to_string(a->preparer) + ":" + std::to_string(a->job);
  return out;
}

TEST(PreparerQueue, ALongTextHoldsUpNobodyElse) {
  PreparerQueue<int> queue(2);
  for (int job = 0; job < 6; ++job) queue.add(job);
  EXPECT_EQ(hand_out(queue), "0:0 1:1");  // 0 is long
  for (int job = 2; job < 6; ++job) {
    queue.set_free(1);
    EXPECT_EQ(hand_out(queue), "1:" + std::to_string(job));
  }
  queue.set_free(1);
  EXPECT_EQ(queue.num_waiting(), 0u);
  queue.add(6);
  EXPECT_EQ(hand_out(queue), "1:6");
  queue.set_free(0);
  EXPECT_EQ(hand_out(queue), "");
  queue.add(7);
  EXPECT_EQ(hand_out(queue), "0:7");
}

TEST(PreparerQueue, OldestFirst) {
  PreparerQueue<int> queue(1);
  queue.add(1);
  queue.add(2);
  EXPECT_EQ(hand_out(queue), "0:1");
  queue.add(3);
  EXPECT_EQ(queue.num_waiting(), 2u);
  queue.set_free(0);
  EXPECT_EQ(hand_out(queue), "0:2");
  queue.set_free(0);
  EXPECT_EQ(hand_out(queue), "0:3");
}

}  // namespace
}  // namespace tandem::actors
