// Tags against HuggingFace's, and their bounds.
#include "text/answers/tag_tree.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/error.h"
#include "tests/support/goldens/answer_cases.h"

namespace tandem::tag_tree_test {
namespace {

nlohmann::ordered_json tree_of(const std::string& text) {
  return tag_tree(text, [](const std::string& token) { return token == "<yes/>"; });
}

TEST(TagTree, IsHuggingFaces) {
  for (const auto& c : test::answer_cases("tags")) {
    const std::set<std::string> added = c.at("added");
    EXPECT_EQ(tag_tree(c.at("text").get<std::string>(),
                       [&](const std::string& token) { return added.contains(token); })
                  .dump(),
              c.at("answer").dump())
        << c.at("text");
  }
}

TEST(TagTree, NamesListsAndWords) {
  EXPECT_EQ(
      tree_of("<s_menu><s_nm>Tea</s_nm><sep/><s_nm>Pie</s_nm></s_menu><s_paid><yes/></s_paid>")
          .dump(),
      R"({"menu":[{"nm":"Tea"},{"nm":"Pie"}],"paid":"yes"})");
  EXPECT_EQ(tree_of("no tag").dump(), R"({"text_sequence":"no tag"})");
}

TEST(TagTree, HasBounds) {
  std::string deep;
  for (int i = 0; i < 200; ++i)
    deep = "<s_" + std::to_string(i) + ">" + deep + "</s_" + std::to_string(i) + ">";
  EXPECT_THROW(tree_of(deep), InputError);
  EXPECT_THROW(tree_of(std::string(kMaxTaggedBytes + 1, 'a')), InputError);
}

TEST(TagTree, TheTaskTagGoes) {
  EXPECT_EQ(without_task_tag("<s_cord> <s_a>b</s_a></s><pad>", "</s>", "<pad>"), "<s_a>b</s_a>");
  EXPECT_EQ(without_task_tag("a <b\n> <c> d", "", ""), "a <b\n>  d");
  EXPECT_EQ(without_task_tag("a < b", "", ""), "a < b");
}

}  // namespace
}  // namespace tandem::tag_tree_test
