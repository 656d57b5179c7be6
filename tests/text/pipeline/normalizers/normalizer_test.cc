// Normalizers of tokenizer.json by hand; components_test.cc has the library's own answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/strings/base64.h"
#include "text/pipeline/text_pipeline.h"

namespace tandem {
namespace {

using nlohmann::json;

std::string normalize(const json& component, const std::string& text) {
  GrowthBudget budget("test", text.size());
  return make_normalizer(JsonView(component, "test"))->normalize(text, budget);
}

TEST(StripNormalizer, TakesWhiteSpaceAtTheEnds) {
  const auto strip = [](bool left, bool right) {
    return json{{"type", "Strip"}, {"strip_left", left}, {"strip_right", right}};
  };
  EXPECT_EQ(normalize(strip(false, true), " \u2003a\u3000 \n"), " \u2003a");
  EXPECT_EQ(normalize(strip(true, false), " \u2003a "), "a ");
  EXPECT_EQ(normalize(strip(true, true), " \u2003 "), "");
}

TEST(PrependNormalizer, StandsBeforeTexts) {
  const json component = {{"type", "Prepend"}, {"prepend", "_"}};
  EXPECT_EQ(normalize(component, "a b"), "_a b");
  EXPECT_EQ(normalize(component, "_"), "__");
  EXPECT_EQ(normalize(component, ""), "");
}

TEST(ReplaceNormalizer, StringsAndRunsOfSpaces) {
  const json string = {{"type", "Replace"}, {"pattern", {{"String", "ab"}}}, {"content", "x"}};
  EXPECT_EQ(normalize(string, "abcabab"), "xcxx");
  const json spaces = {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "_"}};
  EXPECT_EQ(normalize(spaces, "a b  c     d "), "a b_c_d ");
  const json wrong = {{"type", "Replace"}, {"pattern", {{"Regex", "a)"}}}, {"content", "_"}};
  EXPECT_THROW(normalize(wrong, "a"), InputError);
}

TEST(Precompiled, DamagedTablesAreErrors) {
  for (const std::string& wrong :
       {std::string("!"), encode_base64("abc"), encode_base64("\1\1\1\1ab")}) {
    const json component = {{"type", "Precompiled"}, {"precompiled_charsmap", wrong}};
    EXPECT_THROW(normalize(component, "a"), InputError) << wrong;
  }
  // Without a table nothing changes.
  const json empty = {{"type", "Precompiled"}, {"precompiled_charsmap", ""}};
  EXPECT_EQ(normalize(empty, "a\r\n\u00E9\U0001F469\u200D\U0001F467"),
            "a\r\n\u00E9\U0001F469\u200D\U0001F467");
}

// Seven steps that each make a thousand bytes of one.
TEST(Normalizer, TextsDoNotGrowWithoutBound) {
  json steps = json::array();
  for (int i = 0; i < 7; ++i)
    steps.push_back(
        {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1000, 'a')}});
  const json component = {{"type", "Sequence"}, {"normalizers", steps}};
  EXPECT_THROW(normalize(component, "aaaa"), InputError);
}

}  // namespace
}  // namespace tandem
