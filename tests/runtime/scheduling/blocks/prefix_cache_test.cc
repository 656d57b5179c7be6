#include <gtest/gtest.h>

#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "runtime/scheduling/blocks/block_caches.h"

namespace tandem {
namespace {

using Ids = std::vector<int32_t>;
constexpr auto kBegin = PrefixCache::kBegin;

TEST(PrefixCache, FindsChains) {
  PrefixCache cache(8);
  const Ids source = {5, 6, 7}, first = {1, 2}, second = {3, 4};
  const SourceKey from{77, source};
  const auto a = cache.insert(kBegin, from, first, 3);
  const auto b = cache.insert(a.chain, from, second, 5);
  EXPECT_EQ(a.block, 3);
  EXPECT_EQ(b.block, 5);
  cache.check_integrity();

  const auto found = cache.find(kBegin, from, first);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->block, 3);
  EXPECT_EQ(found->chain, a.chain);
  EXPECT_EQ(cache.find(found->chain, from, second)->block, 5);
  EXPECT_FALSE(cache.find(kBegin, from, second)) << "it stands behind the first";
  EXPECT_FALSE(cache.find(a.chain, from, first));
}

TEST(PrefixCache, TheSourceBelongsToTheKey) {
  PrefixCache cache(8);
  const Ids one = {5, 6, 7}, other = {5, 6}, tokens = {1, 2};
  cache.insert(kBegin, {77, one}, tokens, 3);
  EXPECT_FALSE(cache.find(kBegin, {77, other}, tokens)) << "though their hashes are equal";
  EXPECT_TRUE(cache.find(kBegin, {77, one}, tokens));
}

TEST(PrefixCache, OneBlockForOneContent) {
  PrefixCache cache(8);
  const Ids source = {5}, tokens = {1, 2};
  const auto a = cache.insert(kBegin, {7, source}, tokens, 3);
  const auto again = cache.insert(kBegin, {7, source}, tokens, 4);
  EXPECT_EQ(again.block, 3);
  EXPECT_EQ(again.chain, a.chain);
  EXPECT_FALSE(cache.holds(4));
  // A block that is cached keeps its name.
  EXPECT_EQ(cache.insert(99, {7, source}, tokens, 3).chain, a.chain);
  EXPECT_EQ(cache.size(), 1);
}

// What comes behind an evicted block is not found, not even when the block's tokens come again.
TEST(PrefixCache, ChainsAreNotUsedAgain) {
  PrefixCache cache(8);
  const Ids source = {5}, first = {1, 2}, second = {3, 4};
  const SourceKey from{7, source};
  const auto a = cache.insert(kBegin, from, first, 3);
  cache.insert(a.chain, from, second, 5);
  cache.erase(3);
  EXPECT_FALSE(cache.find(kBegin, from, first));
  const auto again = cache.insert(kBegin, from, first, 3);
  EXPECT_NE(again.chain, a.chain);
  EXPECT_FALSE(cache.find(again.chain, from, second));
  cache.check_integrity();
  cache.clear();
  EXPECT_EQ(cache.size(), 0);
  EXPECT_FALSE(cache.holds(5));
  EXPECT_NE(cache.insert(kBegin, from, first, 3).chain, again.chain);
}

// Random insertions and evictions with hashes of no, one or two bits, against a map.
TEST(PrefixCache, CollisionsMixNothingUp) {
  const uint32_t seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  int found = 0, missing = 0;
  for (const uint64_t mask : {0u, 1u, 3u}) {
    const int blocks = 24;
    PrefixCache cache(blocks, mask);
    const std::vector<Ids> sources = {{1}, {2}, {1, 2}};
    using Key = std::tuple<PrefixCache::Chain, size_t, Ids>;
    std::map<Key, PrefixCache::Link> known;
    std::vector<PrefixCache::Chain> chains = {kBegin};
    for (int i = 0; i < 4000; ++i) {
      const auto pick = [&](size_t n) { return random() % n; };
      const size_t s = pick(sources.size());
      const PrefixCache::Chain before = chains[pick(chains.size())];
      // Behind its first block a chain has one source.
      const Key key{before,
                    before == kBegin ? s : 0,
                    {static_cast<int32_t>(pick(2)), static_cast<int32_t>(pick(2))}};
      const SourceKey source{0, sources[std::get<1>(key)]};
      const auto block = static_cast<int32_t>(pick(blocks));
      if (cache.holds(block)) {
        if (pick(2) == 0) continue;
        cache.erase(block);
        std::erase_if(known, [&](const auto& entry) { return entry.second.block == block; });
      }
      const auto it = known.find(key);
      const auto link = cache.find(before, source, std::get<2>(key));
      ASSERT_EQ(link.has_value(), it != known.end()) << "seed " << seed;
      ++(link ? found : missing);
      if (link) {
        ASSERT_EQ(link->block, it->second.block);
        ASSERT_EQ(link->chain, it->second.chain);
        continue;
      }
      known[key] = cache.insert(before, source, std::get<2>(key), block);
      ASSERT_EQ(known[key].block, block);
      chains.push_back(known[key].chain);
      if (chains.size() > 12) chains.erase(chains.begin() + 1);
      cache.check_integrity();
    }
  }
  EXPECT_GT(found, 500);
  EXPECT_GT(missing, 500);
}

}  // namespace
}  // namespace tandem
