// Words of tokens, against HuggingFace's pipeline.
#include "runtime/media/sound/words/word_groups.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "models/family.h"
#include "tests/support/files/files.h"
#include "text/language_names.h"

namespace tandem {
namespace {

TEST(WordGroups, SameAsHuggingFace) {
  const auto tokenizer = load_tokenizer(test::golden("whisper-tiny-rand"));
  const auto cases =
      load_json(std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/speech/words.json")["words"];
  ASSERT_GE(cases.size(), 18U);
  for (const auto& c : cases) {
    SCOPED_TRACE(c["text"].get<std::string>());
    const auto language =
        c["language"].is_null() ? "" : language_code(c["language"].get<std::string>());
    const auto& ends = c["token_ends"];
    const auto groups = group_words(*tokenizer, c["tokens"].get<std::vector<int32_t>>(), language);
    ASSERT_EQ(groups.size(), c["words"].size());
    for (size_t i = 0; i < groups.size(); ++i) {
      const auto& want = c["words"][i];
      const size_t first = groups[i].places.front();
      EXPECT_EQ(groups[i].text, want["text"].get<std::string>()) << i;
      EXPECT_EQ(first == 0 ? 0.0 : ends[first - 1].get<double>(), want["start"].get<double>()) << i;
      EXPECT_EQ(ends[groups[i].places.back()].get<double>(), want["end"].get<double>()) << i;
    }
  }
}

TEST(WordGroups, NoTokensAreNoWords) {
  const auto tokenizer = load_tokenizer(test::golden("whisper-tiny-rand"));
  EXPECT_TRUE(group_words(*tokenizer, {}, "en").empty());
  EXPECT_TRUE(group_words(*tokenizer, {}, "ja").empty());
}

}  // namespace
}  // namespace tandem
