#include "runtime/scheduling/drafts/ngram_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

namespace tandem {
namespace {

using Text = std::vector<int32_t>;

// The longest n-gram at the end that came before in one text and was followed there; of equals the
// last one.
NgramIndex::Match naive_find(const Text& text, int least, int most) {
  const auto begin = std::find(text.rbegin(), text.rend(), NgramIndex::kSeparator).base();
  for (int n = std::min<int>(most, static_cast<int>(text.end() - begin)); n >= least; --n) {
    const Text end(text.end() - n, text.end());
    for (size_t place = text.size() - 1; place >= static_cast<size_t>(n); --place)
      if (text[place] != NgramIndex::kSeparator &&
          std::equal(end.begin(), end.end(), text.begin() + static_cast<long>(place) - n))
        return {n, place};
  }
  return {};
}

TEST(NgramIndex, FindsWhatFollowedTheLongestEnd) {
  NgramIndex index(1, 3);
  for (const int32_t token : {5, 6, 7, 8, 1, 6, 7, 9}) index.append(token);
  index.separate();
  EXPECT_EQ(index.find().length, 0);
  index.append(7);
  EXPECT_EQ(index.find().length, 1);
  EXPECT_EQ(index.find().place, 7u) << "the last of equals";
  index.append(8);
  EXPECT_EQ(index.find().length, 2);
  EXPECT_EQ(index.find().place, 4u);
  index.append(9);
  EXPECT_EQ(index.find().length, 0) << "nothing follows the first text's end";
}

TEST(NgramIndex, EmptyTexts) {
  NgramIndex index(2, 2);
  EXPECT_EQ(index.find().length, 0);
  index.separate();
  index.separate();
  EXPECT_EQ(index.find().length, 0);
  index.append(0);
  EXPECT_EQ(index.find().length, 0);
  index.check_integrity();
}

TEST(NgramIndex, AgreesWithANaiveSearch) {
  std::mt19937 random(7);
  const auto uniform = [&](int low, int high) {
    return std::uniform_int_distribution(low, high)(random);
  };
  int found = 0, longest = 0;
  for (int round = 0; round < 200; ++round) {
    const int least = uniform(1, 3), most = uniform(least, 5);
    const int vocabulary = uniform(1, 40);
    NgramIndex index(least, most);
    Text text;
    for (int i = uniform(0, 200); i >= 0; --i) {
      if (uniform(0, 60) == 0) {
        index.separate();
        text.push_back(NgramIndex::kSeparator);
      } else {
        text.push_back(uniform(0, vocabulary));
        index.append(text.back());
      }
      const NgramIndex::Match match = index.find(), naive = naive_find(text, least, most);
      ASSERT_EQ(match.length, naive.length);
      ASSERT_EQ(match.place, naive.place);
      found += match.length > 0;
      longest += match.length == 5;
    }
    index.check_integrity();
  }
  EXPECT_GT(found, 5000);
  EXPECT_GT(longest, 100);
}

}  // namespace
}  // namespace tandem
