// Words as tokens that must not complete each other.
#include "runtime/request/params/bad_words.h"

#include <gtest/gtest.h>

#include "models/family.h"
#include "tests/support/goldens/goldens.h"
#include "tests/text/fake_tokenizer.h"

namespace tandem {
namespace {

using Ids = std::vector<int32_t>;

TEST(BadWords, BeginATextOrFollowABlank) {
  const FakeTokenizer bytes;
  const auto id = [](char c) { return 3 + static_cast<unsigned char>(c); };
  EXPECT_EQ(bad_words_ids({"ab"}, bytes),
            (std::vector<Ids>{{id('a'), id('b')}, {id(' '), id('a'), id('b')}}));
  EXPECT_EQ(bad_words_ids({"a", "a"}, bytes), (std::vector<Ids>{{id('a')}, {id(' '), id('a')}}));
  EXPECT_TRUE(bad_words_ids({}, bytes).empty());
}

// BART's tokens of a word behind a blank are other ones, and no special tokens are around them.
TEST(BadWords, OfARealTokenizer) {
  const auto tokenizer = load_tokenizer(testing::golden_dir("bart-base-shape"));
  for (const char* word : {"the", "package", "Programs"}) {
    const auto lists = bad_words_ids({word}, *tokenizer);
    ASSERT_EQ(lists.size(), 2u) << word;
    EXPECT_EQ(tokenizer->decode(lists[0], false), word);
    EXPECT_EQ(tokenizer->decode(lists[1], false), std::string(" ") + word);
  }
}

}  // namespace
}  // namespace tandem
