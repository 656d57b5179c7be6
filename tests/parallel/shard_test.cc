#include "parallel/shard.h"

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

// Each rank's queries read exactly its keys, as many each: that is what attention takes for
// granted.
TEST(Shard, HeadsOfKeysFollowTheQueriesThatReadThem) {
  for (const int64_t kv_heads : {1, 2, 3, 4, 8})
    for (const int64_t group : {1, 2, 3, 7})
      for (int ranks = 1; ranks <= 9; ++ranks) {
        SCOPED_TRACE(::testing::Message() << kv_heads << " by " << group << " over " << ranks);
        const int64_t heads = kv_heads * group;
        int64_t next = 0;
        for (int r = 0; r < ranks; ++r) {
          const HeadShard part = shard_heads(heads, kv_heads, r, ranks);
          if (part.queries.size() == 0) {
            EXPECT_EQ(part.keys.size(), 0);
            continue;
          }
          EXPECT_EQ(part.queries.begin, next);
          next = part.queries.end;
          ASSERT_EQ(part.queries.size() % part.keys.size(), 0);
          const int64_t readers = part.queries.size() / part.keys.size();
          for (int64_t h = 0; h < part.queries.size(); ++h)
            EXPECT_EQ((part.queries.begin + h) / group, part.keys.begin + h / readers);
        }
        EXPECT_EQ(next, heads);
      }
}

TEST(Shard, OneHeadOfKeysIsOnAllRanks) {
  EXPECT_EQ(shard_heads(4, 1, 3, 4).queries.begin, 3);
  EXPECT_EQ(shard_heads(4, 1, 3, 4).keys.begin, 0);
  EXPECT_EQ(shard_heads(4, 1, 3, 4).keys.size(), 1);
  EXPECT_EQ(shard_heads(4, 2, 2, 4).keys.begin, 1);
}

TEST(Shard, RankOutOfRangeStops) {
  EXPECT_DEATH(shard_range(4, 2, 2), "rank < ranks \\(2 vs. 2\\)");
}

}  // namespace
}  // namespace tandem
