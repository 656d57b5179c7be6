// How long the rest of some work will take.
#include "launcher/progress.h"

#include <gtest/gtest.h>

namespace tandem::progress_test {
namespace {

using launcher::time_left;

TEST(Progress, TimeLeft) {
  EXPECT_EQ(time_left(10, 1, 9), "1:30 left");
  EXPECT_EQ(time_left(10, 5, 1), "0:02 left");
  EXPECT_EQ(time_left(100, 1, 37.21), "1:02:01 left");
  // Too early to tell, or nothing to tell it from.
  EXPECT_EQ(time_left(0.5, 1, 9), "");
  EXPECT_EQ(time_left(10, 0, 9), "");
  EXPECT_EQ(time_left(1000, 1, 1e9), "");
}

}  // namespace
}  // namespace tandem::progress_test
