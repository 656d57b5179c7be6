#include "text/replaced.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Replaced, FromLeftToRight) {
  EXPECT_EQ(replaced("aaaa", "aa", "b"), "bb");
  EXPECT_EQ(replaced("aaa", "aa", "aaa"), "aaaa");
  EXPECT_EQ(replaced("a . b .", " .", "."), "a. b.");
  EXPECT_EQ(replaced("", "a", "b"), "");
}

// What Rust makes of it.
TEST(Replaced, AnEmptyTextStandsBeforeEachCharacter) {
  EXPECT_EQ(replaced("aé", "", "-"), "-a-é-");
  EXPECT_EQ(replaced("", "", "-"), "-");
}

}  // namespace
}  // namespace tandem
