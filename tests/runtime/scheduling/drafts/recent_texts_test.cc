#include "runtime/scheduling/drafts/recent_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "runtime/scheduling/drafts/draft_lookup.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/scheduling/scheduler_cases.h"
#include "tests/support/scheduling/test_groups.h"

namespace tandem::recent_texts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Tokens = std::vector<int32_t>;

TEST(RecentTexts, TheLongestEndCounts) {
  RecentTexts texts(1000);
  texts.add(Tokens{1, 2, 3, 4, 5});
  texts.add(Tokens{9, 2, 3, 7});
  EXPECT_THAT(texts.find(Tokens{1, 2, 3}).tokens, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_EQ(texts.find(Tokens{1, 2, 3}).length, 3);
  EXPECT_THAT(texts.find(Tokens{8, 2, 3}).tokens, ElementsAre(2, 3, 7)) << "of equals the last one";
  EXPECT_THAT(texts.find(Tokens{4, 5}).tokens, IsEmpty()) << "nothing followed";
  EXPECT_THAT(texts.find(Tokens{3}).tokens, IsEmpty()) << "one token says too little";
  EXPECT_THAT(texts.find(Tokens{5, 9}).tokens, IsEmpty()) << "of two texts";
  texts.check_integrity();
}

TEST(RecentTexts, ThereMayBeNone) {
  RecentTexts texts(0);
  texts.add(Tokens{1, 2, 3, 4, 5});
  EXPECT_EQ(texts.find(Tokens{1, 2}).length, 0);
  EXPECT_EQ(texts.size(), 0u);
  texts.check_integrity();
}

TEST(RecentTexts, OfALongOneTheEndIsKept) {
  RecentTexts texts(20);
  Tokens text;
  for (int i = 0; i < 50; ++i) text.push_back(i);
  texts.add(text);
  EXPECT_EQ(texts.find(Tokens{30, 31}).length, 0);
  EXPECT_THAT(texts.find(Tokens{46, 47}).tokens, ElementsAre(46, 47, 48, 49));
  texts.check_integrity();
}

// Against a list of all texts: what is found is the end of the text asked for, as long as one that
// is surely kept has it, and followed as it was.
TEST(RecentTexts, AgreesWithANaiveSearch) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto uniform = [&](int low, int high) {
    return std::uniform_int_distribution(low, high)(random);
  };
  const auto text_of = [&](int most) {
    Tokens text;
    for (int i = uniform(0, most); i > 0; --i) text.push_back(uniform(0, 5));
    return text;
  };
  constexpr int kCapacity = 200;
  int found = 0;
  for (int round = 0; round < 50; ++round) {
    RecentTexts texts(kCapacity);
    std::deque<Tokens> all;
    for (int i = 0; i < 60; ++i) {
      all.push_front(text_of(30));
      texts.add(all.front());
      texts.check_integrity();
      ASSERT_LE(texts.size(), size_t{kCapacity});
      const Tokens asked = text_of(10);
      const RecentTexts::Match match = texts.find(asked);
      ASSERT_EQ(match.length > 0, !match.tokens.empty());
      // The most that texts have of it: those that are kept in any case, and all.
      int kept = 0, most = 0;
      size_t tokens = 0;
      for (const Tokens& text : all) {
        tokens += text.size() + 1;
        for (int n = RecentTexts::kLeast;
             n <= std::min<int>(RecentTexts::kMost, static_cast<int>(asked.size())); ++n) {
          const auto at = std::search(text.begin(), text.empty() ? text.end() : text.end() - 1,
                                      asked.end() - n, asked.end());
          if (text.empty() || at == text.end() - 1) break;
          most = std::max(most, n);
          if (tokens <= size_t{kCapacity} / 2) kept = std::max(kept, n);
        }
      }
      ASSERT_GE(match.length, kept);
      ASSERT_LE(match.length, most);
      if (match.length == 0) continue;
      ++found;
      ASSERT_GT(match.tokens.size(), static_cast<size_t>(match.length));
      ASSERT_TRUE(std::equal(asked.end() - match.length, asked.end(), match.tokens.begin()));
      ASSERT_TRUE(std::any_of(all.begin(), all.end(), [&](const Tokens& text) {
        return std::search(text.begin(), text.end(), match.tokens.begin(), match.tokens.end()) !=
               text.end();
      }));
    }
  }
  EXPECT_GT(found, 500);
}

// --- With a look-up ------------------------------------------------------------------------------

constexpr SpeculationConfig kConfig{.num_tokens = 8, .vocabulary = 100};

Tokens drafts(const DraftLookup& lookup, int most, int pending = 0) {
  Tokens out;
  lookup.draft(pending, most, 0, out);
  return out;
}

TEST(DraftLookup, GoesOnAsARecentText) {
  HitRates rates;
  RecentTexts recent(1000);
  recent.add(Tokens{1, 2, 3, 4, 5, 6});
  DraftLookup lookup(kConfig, Tokens{50}, rates, &recent);
  lookup.append(1, /*generated=*/false);
  EXPECT_THAT(drafts(lookup, 8), IsEmpty());
  lookup.append(2, true);
  EXPECT_THAT(drafts(lookup, 8), ElementsAre(3, 4, 5, 6)) << "up to its end";
  EXPECT_THAT(drafts(lookup, 8, /*pending=*/1), ElementsAre(4, 5, 6));
  lookup.check_integrity();
  // The texts may change meanwhile.
  for (int i = 0; i < 500; ++i) recent.add(Tokens{60, 61, 62 + i % 30});
  lookup.append(3, true);
  EXPECT_THAT(drafts(lookup, 2), ElementsAre(4, 5));
  lookup.append(4, true);
  lookup.append(5, true);
  lookup.append(6, true);
  EXPECT_THAT(drafts(lookup, 8), IsEmpty());
  lookup.check_integrity();
}

TEST(DraftLookup, ItsOwnTextsComeFirst) {
  HitRates rates;
  RecentTexts recent(1000);
  recent.add(Tokens{1, 2, 3, 30, 31});
  DraftLookup lookup(kConfig, Tokens{2, 3, 40, 41}, rates, &recent);
  for (const int32_t token : {2, 3}) lookup.append(token, true);
  EXPECT_THAT(drafts(lookup, 2), ElementsAre(40, 41));
  DraftLookup longer(kConfig, Tokens{2, 3, 40, 41}, rates, &recent);
  for (const int32_t token : {1, 2, 3}) longer.append(token, true);
  EXPECT_THAT(drafts(longer, 2), ElementsAre(30, 31)) << "more of it agrees";
  longer.check_integrity();
}

// Both kinds are believed as far as they have been right.
TEST(DraftLookup, RatesOfRecentTextsAreTheirOwn) {
  HitRates rates;
  RecentTexts recent(1000);
  recent.add(Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9});
  const double before = rates.of(2), recent_before = recent.rates().of(2);
  DraftLookup lookup(kConfig, Tokens{}, rates, &recent);
  for (const int32_t token : {1, 2, 55}) lookup.append(token, true);
  EXPECT_EQ(rates.of(2), before);
  EXPECT_LT(recent.rates().of(2), recent_before);
}

// --- In the scheduler ----------------------------------------------------------------------------

// A request that says 100 to 129, which its source does not have; returns how many drafts it had.
int say(Scheduler& scheduler, int source, const std::string& salt) {
  scheduler.add_seq_group(testing_support::make_group({.request_id = "a",
                                                       .seq_ids = {1},
                                                       .encoder_len = 10,
                                                       .prompt_len = 2,
                                                       .max_tokens = 40,
                                                       .source = source,
                                                       .cache_salt = salt}));
  int count = 0;
  for (int32_t next = 100; next < 130;) {
    const proto::StepInput step = scheduler.schedule(0);
    Tokens said;
    for (const auto& delta : step.deltas())
      for (const auto& seq : delta.seqs())
        said.assign(seq.draft_token_ids().begin(), seq.draft_token_ids().end());
    count += static_cast<int>(said.size());
    std::vector<testing_support::SampledToken> sampled{{"a", 1, next++}};
    for (size_t i = 0; i < said.size() && said[i] == sampled.back().token; ++i)
      sampled.push_back({"a", 1, next++});
    scheduler.complete_step(testing_support::answer_of(step.step(), sampled));
    scheduler.check_integrity();
  }
  scheduler.finish_sequence("a", 1, SequenceStatus::kFinishedStopped);
  scheduler.free_finished_seq_groups();
  scheduler.check_integrity();
  return count;
}

// A salt on either side forbids it, and so does an engine without prefix caching.
TEST(RecentTextsOfAScheduler, MakeDrafts) {
  SchedulerConfig config = testing_support::config(100, 50);
  config.speculation = {.num_tokens = 4, .vocabulary = 10'000};
  for (const bool caching : {false, true})
    for (const bool first_salted : {false, true})
      for (const bool second_salted : {false, true}) {
        config.enable_prefix_caching = caching;
        Scheduler scheduler(config);
        EXPECT_EQ(say(scheduler, 0, first_salted ? "salt" : ""), 0);
        const int drafts = say(scheduler, 1, second_salted ? "salt" : "");
        if (caching && !first_salted && !second_salted)
          EXPECT_GT(drafts, 10);
        else
          EXPECT_EQ(drafts, 0) << caching << first_salted << second_salted;
      }
}

}  // namespace
}  // namespace tandem::recent_texts_test
