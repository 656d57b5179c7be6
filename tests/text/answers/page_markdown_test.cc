// Markdown against HuggingFace's, and what it is made with.
#include "text/answers/page_markdown.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "tests/support/goldens/answer_cases.h"
#include "text/answers/indel_ratio.h"
#include "text/answers/page_repetitions.h"
#include "text/answers/python_expression.h"

namespace tandem::page_markdown_test {
namespace {

TEST(PageMarkdown, IsHuggingFaces) {
  for (const auto& c : test::answer_cases("page"))
    EXPECT_EQ(page_markdown(c.at("text").get<std::string>()), c.at("answer")) << c.at("text");
}

TEST(PageMarkdown, ARepeatedEndIsCutOff) {
  const std::string again = "The same words come again and again. ";
  EXPECT_EQ(without_repeated_end("Once. " + again + again + again + again),
            "Once. The same words come again and again.");
  EXPECT_EQ(without_repeated_end(again), again);
}

TEST(PageMarkdown, ALongTextTakesNoTime) {
  std::string text;  // 2^14 characters that repeat at every length
  text.assign(1 << 14, 'a');
  EXPECT_LT(page_markdown(text).size(), text.size());
}

// Levenshtein.ratio() of 0.27.
TEST(IndelRatio, IsLevenshteins) {
  EXPECT_EQ(indel_ratio(U"", U""), 1.0);
  EXPECT_EQ(indel_ratio(U"", U"ab"), 0.0);
  EXPECT_DOUBLE_EQ(indel_ratio(U"lewenstein", U"levenshtein"), 0.8571428571428572);
  EXPECT_DOUBLE_EQ(indel_ratio(U"ab", U"ba"), 0.5);
}

TEST(PythonExpression, MeansWhatPythonMeans) {
  using E = PythonExpression;
  EXPECT_EQ(E(R"(^a$)", E::Lines::kMany).sub("a\na\n", "b"), "b\nb\n");
  EXPECT_EQ(E(R"(^a$)").sub("a\n", "b"), "b\n");
  EXPECT_EQ(E(R"(^a$)").sub("a\na", "b"), "a\na");
  EXPECT_EQ(E(R"((\w)\s(\W?))").sub("\u00e9\u2003! \u0301", R"(\\\2[\1]\[\n)"),
            "\\![\u00e9]\\[\n \u0301");
  EXPECT_EQ(E(R"([\d])").sub("1\u0663\u00b2", "x"), "xx\u00b2");
  EXPECT_EQ(E(R"(a(b)?c)").sub("ac", R"(<\1>)"), "<>");
  EXPECT_EQ(E(R"(a.b)", E::Lines::kOne, E::Dot::kAny).sub("a\nb", "x"), "x");
}

TEST(PythonExpression, TooMuchWorkIsAnError) {
  EXPECT_THROW(PythonExpression(R"((?:a|a)*b\d)").sub(std::string(60, 'a') + "b", ""), InputError);
}

}  // namespace
}  // namespace tandem::page_markdown_test
