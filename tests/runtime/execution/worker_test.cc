// What a worker makes of its setup.
#include "runtime/execution/worker.h"

#include <gtest/gtest.h>

#include "runtime/execution/worker_setup.h"

namespace tandem {
namespace {

TEST(Worker, SharesCoresUnlessTheyAreItsOwn) {
  EXPECT_EQ(threads_of_rank(8, 1, false), 8);
  EXPECT_EQ(threads_of_rank(8, 4, false), 2);
  EXPECT_EQ(threads_of_rank(2, 4, false), 1);
  // Bound to its share already: that share is not divided once more.
  EXPECT_EQ(threads_of_rank(4, 2, true), 4);
}

TEST(Worker, CollectivesHaveTheDeadlineOfTheSetup) {
  proto::WorkerSetup setup;
  EXPECT_EQ(communicator_options(setup).timeout, CommunicatorOptions().timeout);
  setup.set_communicator_timeout(1.5);
  EXPECT_EQ(communicator_options(setup).timeout, std::chrono::milliseconds(1500));
}

}  // namespace
}  // namespace tandem
