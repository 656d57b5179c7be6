#include "base/strings/nearest_name.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(NearestName, ForgivesSpellingButNotAnotherWord) {
  const std::vector<std::string> names = {"max_tokens", "max_new_tokens", "temperature"};
  EXPECT_EQ(nearest_name("maxNewTokens", names), "max_new_tokens");
  EXPECT_EQ(nearest_name("max-tokenz", names), "max_tokens");
  EXPECT_EQ(nearest_name("tempreature", names), "temperature");
  EXPECT_EQ(nearest_name("seed", names), std::nullopt);
  EXPECT_EQ(nearest_name("", names), std::nullopt);
}

TEST(NearestName, IsSuggested) {
  EXPECT_EQ(suggestion("temprature", {"top_k", "temperature"}), " (did you mean temperature?)");
  EXPECT_EQ(suggestion("x", {"top_k", "temperature"}), "");
}

}  // namespace
}  // namespace tandem
