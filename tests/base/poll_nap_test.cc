// Looks are few, and late by little.
#include "base/poll_nap.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

using namespace std::chrono_literals;

TEST(PollNap, LooksAreFewAndLateByLittle) {
  for (const std::chrono::nanoseconds end : {100us, 1000us, 5000us, 100000us, 10000000us}) {
    std::chrono::nanoseconds waited = 0ns;
    int looks = 0;
    for (; waited < end; ++looks) waited += poll_nap(waited);
    EXPECT_LE(looks, end / 50us + 1);
    EXPECT_LE(looks, 60 + end / 1ms);
    EXPECT_LE(waited - end, std::max<std::chrono::nanoseconds>(50us, end / 16));
  }
}

}  // namespace
}  // namespace tandem
