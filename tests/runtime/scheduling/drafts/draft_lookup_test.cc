#include "runtime/scheduling/drafts/draft_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Tokens = std::vector<int32_t>;

constexpr SpeculationConfig kConfig{.num_tokens = 8, .vocabulary = 100};

Tokens drafts(const DraftLookup& lookup, int most, double least = 0, int pending = 0) {
  Tokens out;
  lookup.draft(pending, most, least, out);
  return out;
}

TEST(DraftLookup, GoesOnAsTheSource) {
  HitRates rates;
  const Tokens source{5, 6, 7, 8, 9, 99};
  DraftLookup lookup(kConfig, source, rates);
  EXPECT_THAT(drafts(lookup, 8), IsEmpty());
  lookup.append(2, /*generated=*/false);
  EXPECT_THAT(drafts(lookup, 8), IsEmpty());
  lookup.append(6, /*generated=*/true);
  EXPECT_THAT(drafts(lookup, 8), ElementsAre(7, 8, 9, 99)) << "up to its end";
  EXPECT_THAT(drafts(lookup, 2), ElementsAre(7, 8));
  EXPECT_THAT(drafts(lookup, 8, 0, /*pending=*/1), ElementsAre(8, 9, 99));
  EXPECT_THAT(drafts(lookup, 8, 0, /*pending=*/5), IsEmpty());
  lookup.check_integrity();
}

TEST(DraftLookup, GoesOnAsItsOwnText) {
  HitRates rates;
  DraftLookup lookup(kConfig, Tokens{50}, rates);
  for (const int32_t token : {1, 2, 3, 1}) lookup.append(token, true);
  EXPECT_THAT(drafts(lookup, 7), ElementsAre(2, 3, 1, 2, 3, 1, 2)) << "drafts repeat themselves";
}

TEST(DraftLookup, KnowsNoTokensBeyondTheVocabulary) {
  HitRates rates;
  DraftLookup lookup(kConfig, Tokens{1, 2, 100, 3}, rates);
  lookup.append(1, true);
  EXPECT_THAT(drafts(lookup, 8), ElementsAre(2));
}

// A place that was right is kept where another one agrees no better.
TEST(DraftLookup, StaysWhereItIs) {
  HitRates rates;
  DraftLookup lookup({.num_tokens = 8, .lookup_max = 2, .vocabulary = 100},
                     Tokens{10, 1, 2, 3, 11, 20, 1, 2, 3, 21}, rates);
  for (const int32_t token : {10, 1, 2, 3}) lookup.append(token, true);
  EXPECT_THAT(drafts(lookup, 1), ElementsAre(11)) << "not 21, which a shorter end says";
}

TEST(DraftLookup, SaysLessWhenItIsWrong) {
  HitRates rates;
  const Tokens source{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  DraftLookup right(kConfig, source, rates), wrong(kConfig, source, rates);
  for (int i = 1; i <= 9; ++i) right.append(i, true);
  for (const int32_t token : {1, 3, 5, 7, 9, 2, 4, 6, 8}) wrong.append(token, true);
  Tokens out;
  EXPECT_GT(right.draft(0, 1, 0, out), 0.8);
  EXPECT_LT(wrong.draft(0, 1, 0, out), 0.3);
  EXPECT_THAT(drafts(wrong, 8, 0.5), IsEmpty());
}

TEST(DraftLookup, ExpectsWhatComes) {
  // Texts that copy their source with errors: what is expected of drafts is what they get.
  std::mt19937 random(3);
  const auto uniform = [&](int high) { return std::uniform_int_distribution(0, high)(random); };
  HitRates rates;
  double expected = 0, hits = 0, said = 0;
  for (int text = 0; text < 100; ++text) {
    Tokens source;
    for (int i = 0; i < 60; ++i) source.push_back(uniform(99));
    DraftLookup lookup(kConfig, source, rates);
    const int error_in = 2 + uniform(20);
    for (const int32_t token : source) {
      Tokens out;
      const double gain = lookup.draft(0, 1, 0.3, out);
      const int32_t next = uniform(error_in) == 0 ? uniform(99) : token;
      if (text > 20 && !out.empty()) {
        expected += gain;
        hits += out[0] == next;
        ++said;
      }
      lookup.append(next, true);
      lookup.check_integrity();
    }
  }
  EXPECT_GT(said, 2000);
  EXPECT_NEAR(expected / said, hits / said, 0.08);
  EXPECT_GT(hits / said, 0.7);
}

}  // namespace
}  // namespace tandem
