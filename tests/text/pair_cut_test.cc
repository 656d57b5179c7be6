#include "text/pair_cut.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>

namespace tandem {
namespace {

// The lengths that are left of two texts.
std::pair<size_t, size_t> cut(size_t first, size_t second, size_t most, bool only_first = false) {
  std::vector<int32_t> a(first), b(second);
  std::iota(a.begin(), a.end(), 0);
  std::iota(b.begin(), b.end(), 0);
  cut_pair(a, b, {most + 3, only_first}, 3);
  for (const auto& ids : {a, b})
    for (size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(ids[i], static_cast<int32_t>(i));
  return {a.size(), b.size()};
}

using Lengths = std::pair<size_t, size_t>;

// As the tokenizers library's truncation "longest_first".
TEST(PairCut, TheLongerTextIsCutFirst) {
  EXPECT_EQ(cut(3, 4, 7), Lengths(3, 4));
  EXPECT_EQ(cut(3, 9, 8), Lengths(3, 5));
  EXPECT_EQ(cut(9, 3, 8), Lengths(5, 3));
  EXPECT_EQ(cut(9, 9, 8), Lengths(4, 4));
  EXPECT_EQ(cut(9, 9, 7), Lengths(3, 4)) << "the odd one is the second's";
  EXPECT_EQ(cut(10, 9, 7), Lengths(4, 3)) << "or the longer one's";
  EXPECT_EQ(cut(5, 30, 9), Lengths(4, 5));
  EXPECT_EQ(cut(0, 9, 4), Lengths(0, 4));
  EXPECT_EQ(cut(9, 9, 0), Lengths(0, 0));
  EXPECT_EQ(cut(1, 1, 1), Lengths(0, 1));
}

TEST(PairCut, TokensAroundThemCount) {
  std::vector<int32_t> a(5), b(5);
  cut_pair(a, b, {}, 3);
  EXPECT_EQ(a.size() + b.size(), 10u) << "nobody asked";
  cut_pair(a, b, {2, false}, 3);
  EXPECT_EQ(a.size() + b.size(), 0u) << "there is no room for a text";
}

TEST(PairCut, OrOnlyTheFirst) {
  EXPECT_EQ(cut(9, 3, 8, true), Lengths(5, 3));
  EXPECT_EQ(cut(3, 9, 10, true), Lengths(1, 9));
  EXPECT_EQ(cut(3, 9, 9, true), Lengths(3, 9)) << "nothing would be left of it";
  EXPECT_EQ(cut(3, 9, 2, true), Lengths(3, 9));
}

}  // namespace
}  // namespace tandem
