#include "runtime/protocol/token_histogram.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tandem {
namespace {

TEST(TokenHistogram, EachNumberIsInTheBucketThatBoundsIt) {
  TokenHistogram histogram;
  for (const int64_t tokens : {0, 1, 2, 8, 9, 16384, 16385}) histogram.observe(tokens);
  const auto& counts = histogram.counts();
  EXPECT_EQ(counts.front(), 2);  // 0, 1
  EXPECT_EQ(counts[1], 2);       // 2, 8
  EXPECT_EQ(counts[2], 1);       // 9
  EXPECT_EQ(counts[12], 1);      // 16384
  EXPECT_EQ(counts.back(), 1);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), 7);
  EXPECT_EQ(histogram.sum(), 0 + 1 + 2 + 8 + 9 + 16384 + 16385);
}

}  // namespace
}  // namespace tandem
