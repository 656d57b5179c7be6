#include "parallel/layers/shard.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Shard, PartsCoverEverythingAndDifferByAtMostOne) {
  for (int64_t n = 0; n <= 40; ++n)
    for (int ranks = 1; ranks <= 9; ++ranks) {
      int64_t next = 0, least = n, most = 0;
      for (int r = 0; r < ranks; ++r) {
        const Range part = shard_range(n, r, ranks);
        EXPECT_EQ(part.begin, next) << n << " over " << ranks;
        next = part.end;
        least = std::min(least, part.size());
        most = std::max(most, part.size());
      }
      EXPECT_EQ(next, n);
      EXPECT_LE(most - least, 1);
    }
}

TEST(Shard, SixHeadsOverFourRanks) {
  EXPECT_EQ(shard_range(6, 0, 4).size(), 2);
  EXPECT_EQ(shard_range(6, 1, 4).size(), 2);
  EXPECT_EQ(shard_range(6, 2, 4).size(), 1);
  EXPECT_EQ((shard_range(6, 3, 4) * 12).begin, 60);
}

TEST(Shard, RankOutOfRangeStops) {
  EXPECT_DEATH(shard_range(4, 2, 2), "rank < ranks \\(2 vs. 2\\)");
}

}  // namespace
}  // namespace tandem
