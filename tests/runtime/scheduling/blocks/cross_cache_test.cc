#include <gtest/gtest.h>

#include <vector>

#include "runtime/scheduling/blocks/block_caches.h"

namespace tandem {
namespace {

using Ids = std::vector<int32_t>;

TEST(CrossCache, FindsWhatWasInserted) {
  CrossCache cache(8);
  const SourceKey source(1, {5, 6, 7});
  EXPECT_EQ(cache.find(source), nullptr);
  cache.insert(source, {4, 2});
  for (const SourceKey& key : {source, SourceKey(1, {5, 6, 7})}) {
    ASSERT_NE(cache.find(key), nullptr);
    EXPECT_EQ(*cache.find(key), (Blocks{4, 2}));
  }
  EXPECT_TRUE(cache.holds(4) && cache.holds(2) && !cache.holds(3));
  cache.check_integrity();
}

TEST(CrossCache, EqualHashesAreNotEqualSources) {
  CrossCache cache(8);
  const std::vector<Ids> sources = {{5, 6, 7}, {5, 6}, {5, 6, 8}, {6, 5, 7}};
  for (int i = 0; i < 3; ++i) cache.insert({9, sources[static_cast<size_t>(i)]}, {i, 4 + i});
  cache.check_integrity();
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(*cache.find({9, sources[static_cast<size_t>(i)]}), (Blocks{i, 4 + i}));
  EXPECT_EQ(cache.find({9, sources[3]}), nullptr);
  EXPECT_EQ(cache.find({8, sources[0]}), nullptr);

  EXPECT_EQ(cache.erase(5), (Blocks{1, 5}));
  cache.check_integrity();
  EXPECT_EQ(cache.find({9, sources[1]}), nullptr);
  EXPECT_EQ(*cache.find({9, sources[0]}), (Blocks{0, 4}));
  EXPECT_EQ(*cache.find({9, sources[2]}), (Blocks{2, 6}));
  EXPECT_FALSE(cache.holds(1) || cache.holds(5));
  EXPECT_EQ(cache.size(), 2);
  cache.clear();
  EXPECT_EQ(cache.size(), 0);
  EXPECT_FALSE(cache.holds(0));
  cache.check_integrity();
}

TEST(CrossCacheDeathTest, ABlockOfTwoSources) {
  CrossCache cache(8);
  cache.insert({1, Ids{1}}, {3});
  EXPECT_DEATH(cache.insert({2, Ids{2}}, {3}), "two sources");
}

}  // namespace
}  // namespace tandem
