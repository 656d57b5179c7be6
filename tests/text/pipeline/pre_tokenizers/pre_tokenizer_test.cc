// Pre-tokenizers of tokenizer.json by hand; components_test.cc has the library's own answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/pipeline/text_pipeline.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::ElementsAre;

std::vector<std::string> split(const json& component, const std::string& text, bool starts = true) {
  std::vector<std::string> words;
  GrowthBudget budget("test", text.size());
  make_pre_tokenizer(JsonView(component, "test"))
      ->split({text, starts}, budget, [&](const Word& word) { words.emplace_back(word.text); });
  return words;
}

json metaspace(const json& more) {
  json out = {{"type", "Metaspace"}, {"replacement", "_"}};
  out.update(more);
  return out;
}

TEST(Metaspace, MarksAndSplits) {
  EXPECT_THAT(split(metaspace({{"prepend_scheme", "always"}}), "a bc  d"),
              ElementsAre("_a", "_bc", "_", "_d"));
  EXPECT_THAT(split(metaspace({{"add_prefix_space", true}}), " a "), ElementsAre("_a", "_"));
  EXPECT_THAT(split(metaspace({{"add_prefix_space", false}}), "a b"), ElementsAre("a", "_b"));
  EXPECT_THAT(split(metaspace({{"prepend_scheme", "never"}, {"split", false}}), "a b"),
              ElementsAre("a_b"));
  EXPECT_THAT(split(metaspace({{"split", false}}), "a b"), ElementsAre("_a_b"));
  EXPECT_THAT(split(metaspace(json::object()), ""), ElementsAre());
  EXPECT_THAT(split(metaspace({{"prepend_scheme", "first"}}), "a b"), ElementsAre("_a", "_b"));
  EXPECT_THAT(split(metaspace({{"prepend_scheme", "first"}}), "a b", /*starts=*/false),
              ElementsAre("a", "_b"));
  EXPECT_THROW(split(metaspace({{"prepend_scheme", "last"}}), "a"), InputError);
  for (const char* wrong : {"", "__"})
    EXPECT_THROW(split(metaspace({{"replacement", wrong}}), "a"), InputError);
}

TEST(WhitespaceSplit, AnyWhiteSpaceParts) {
  const json component = {{"type", "WhitespaceSplit"}};
  EXPECT_THAT(split(component, " a\tb\u2003c\n\u00E9 "), ElementsAre("a", "b", "c", "\u00E9"));
  EXPECT_THAT(split(component, " \n"), ElementsAre());
}

TEST(PreTokenizer, WrongComponentsAreErrors) {
  for (const char* wrong :
       {R"({"type": "FixedLength", "length": 0})",
        R"({"type": "CharDelimiterSplit", "delimiter": "ab"})", R"({"type": "RandomChunkSplit"})",
        R"({"type": "Punctuation", "behavior": "Gone"})",
        R"({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Removed",
            "invert": false})"}) {
    const json component = json_from<json>(wrong);
    EXPECT_THROW(split(component, "a"), InputError) << wrong;
  }
}

}  // namespace
}  // namespace tandem
