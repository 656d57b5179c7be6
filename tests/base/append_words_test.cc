#include "base/append_words.h"

#include <gmock/gmock.h>

namespace tandem::append_words_test {
namespace {

using ::testing::ElementsAre;

struct Pair {
  int32_t a = 0, b = 0;
};

TEST(AppendWords, BehindWhatIsThere) {
  std::vector<int32_t> list{7};
  append_words(list, std::vector<Pair>{{1, 2}, {3, 4}}, 2);
  EXPECT_THAT(list, ElementsAre(7, 1, 2, 3, 4));
}

TEST(AppendWords, TheRestIsZeros) {
  std::vector<int32_t> list;
  append_words(list, std::vector<Pair>{{1, 2}}, 3);
  EXPECT_THAT(list, ElementsAre(1, 2, 0, 0, 0, 0));
}

// (UBSan sees a copy from a null pointer.)
TEST(AppendWords, OfNoStructures) {
  std::vector<int32_t> list;
  append_words(list, std::vector<Pair>(), 0);
  EXPECT_TRUE(list.empty());
  append_words(list, std::vector<Pair>(), 1);
  EXPECT_THAT(list, ElementsAre(0, 0));
}

TEST(AppendWordsDeathTest, RoomForAll) {
  std::vector<int32_t> list;
  EXPECT_DEATH(append_words(list, std::vector<Pair>(2), 1), "1");
}

}  // namespace
}  // namespace tandem::append_words_test
