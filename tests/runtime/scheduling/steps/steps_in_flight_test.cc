// The ledger of steps in flight, alone and as the scheduler shows it.
#include "runtime/scheduling/steps/steps_in_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/sampled_tokens.h"
#include "tests/support/scheduling/test_groups.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::make_group;

class StepsInFlightTest : public ::testing::Test {
 protected:
  void start(double now, const std::vector<QueuedGroup*>& groups) {
    StepInFlight& step = steps_.begin(now);
    for (QueuedGroup* queued : groups) StepsInFlight::add_group(step, *queued);
    steps_.check_integrity(queues_);
  }
  void complete(uint64_t number) {
    steps_.oldest(number);
    steps_.complete_oldest();
    queues_.forget_dropped();
    steps_.check_integrity(queues_);
    queues_.check_integrity();
  }

  GroupQueues queues_;
  StepsInFlight steps_;
  QueuedGroup& a_ = queues_.add(make_group({.request_id = "a", .seq_ids = {1}}));
  QueuedGroup& b_ = queues_.add(make_group({.request_id = "b", .seq_ids = {2}}));
};

TEST_F(StepsInFlightTest, KeepsNumbersTimesAndRequests) {
  EXPECT_EQ(steps_.oldest_number(), 0u);
  start(10, {&a_, &b_});
  start(11, {&a_});
  EXPECT_EQ(steps_.size(), 2);
  EXPECT_EQ(steps_.oldest_number(), 1u);
  EXPECT_THAT(steps_.request_ids(), ElementsAre("a", "b", "a"));
  EXPECT_EQ(a_.steps_in_flight, 2);
  complete(1);
  EXPECT_EQ(steps_.completed_scheduled_at(), 10);
  EXPECT_EQ(steps_.oldest_number(), 2u);
  complete(2);
  EXPECT_EQ(steps_.completed_scheduled_at(), 11);
  EXPECT_THAT(steps_.request_ids(), IsEmpty());
  EXPECT_EQ(a_.steps_in_flight, 0);
}

TEST_F(StepsInFlightTest, StepsComeInOrder) {
  EXPECT_THROW(steps_.oldest(1), std::runtime_error);
  start(1, {&a_});
  start(2, {&b_});
  EXPECT_THROW(steps_.oldest(2), std::runtime_error);
  EXPECT_THROW(steps_.oldest(3), std::runtime_error);
  queues_.drop(a_);
  EXPECT_EQ(queues_.dropped().size(), 1u) << "a step refers to it";
  EXPECT_THROW(steps_.oldest(2), std::runtime_error);
  complete(1);
  EXPECT_TRUE(queues_.dropped().empty());
  complete(2);
  EXPECT_EQ(steps_.size(), 0);
  EXPECT_EQ(steps_.completed_scheduled_at(), 2);
}

TEST(SchedulerLedger, SaysWhatIsInFlight) {
  Scheduler scheduler({.max_num_seqs = 8,
                       .max_num_batched_tokens = 32,
                       .block_size = 2,
                       .num_device_blocks = 40,
                       .max_steps_in_flight = 2});
  scheduler.add_seq_group(make_group({.request_id = "x", .seq_ids = {1}, .max_tokens = 9}));
  const auto first = scheduler.schedule(5);
  scheduler.add_seq_group(make_group({.request_id = "y", .seq_ids = {2}, .max_tokens = 9}));
  scheduler.schedule(6);
  EXPECT_THAT(scheduler.steps_in_flight().request_ids(), ElementsAre("x", "y", "x"))
      << "in the order of the messages: in full, then deltas";
  scheduler.complete_step(testing_support::answer_of(first.step(), {{"x", 1, 7}}));
  EXPECT_EQ(scheduler.steps_in_flight().completed_scheduled_at(), 5);
  EXPECT_EQ(scheduler.steps_in_flight().size(), 1);
  EXPECT_THAT(scheduler.steps_in_flight().request_ids(), ElementsAre("y", "x"));
}

}  // namespace
}  // namespace tandem
