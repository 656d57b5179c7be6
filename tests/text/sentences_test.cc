#include "text/sentences.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/strings/utf8.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

using Texts = std::vector<std::string>;

Texts texts_of(const std::string& text, const std::vector<TextSpan>& spans) {
  Texts out;
  for (const TextSpan& span : spans) out.push_back(text.substr(span.begin, span.end - span.begin));
  return out;
}

Texts sentences(const std::string& text, const std::string& language = "en") {
  return texts_of(text, sentences_of(text, language));
}

TEST(Sentences, OfEnglish) {
  EXPECT_EQ(
      sentences("Dr. Smith met J. R. R. Tolkien at 3.5 p.m. in London. He said \"Stop.\" Then "
                "he left!  Did he? Yes."),
      (Texts{"Dr. Smith met J. R. R. Tolkien at 3.5 p.m. in London.", "He said \"Stop.\"",
             "Then he left!", "Did he?", "Yes."}));
  EXPECT_EQ(
      sentences("Take vitamin C. It helps. George W. Bush came. It was 1990. The end."),
      (Texts{"Take vitamin C.", "It helps.", "George W. Bush came.", "It was 1990.", "The end."}));
  EXPECT_EQ(sentences(" 1. Open it.\n 2. Close it.\n\n\tDone"),
            (Texts{"1. Open it.", "2. Close it.", "Done"}));
  EXPECT_EQ(sentences("One line\nanother line\r\nand a third"),
            (Texts{"One line", "another line", "and a third"}));
  EXPECT_EQ(sentences(" \n\t "), Texts{});
  EXPECT_EQ(sentences(""), Texts{});
}

TEST(Sentences, OfOtherLanguages) {
  EXPECT_EQ(
      sentences("Prof. Müller kam am 3. Oktober. Er sagte: „Nein.“ Dann ging er.", "deu_Latn"),
      (Texts{"Prof. Müller kam am 3. Oktober.", "Er sagte: „Nein.“", "Dann ging er."}));
  EXPECT_EQ(sentences("M. Dupont est là. Il est né en 1990.", "fr_XX"),
            (Texts{"M. Dupont est là.", "Il est né en 1990."}));
  EXPECT_EQ(sentences("今天天气很好。我们去公园吧！你呢？「好。」他说。", "zho_Hans"),
            (Texts{"今天天气很好。", "我们去公园吧！", "你呢？", "「好。」", "他说。"}));
  EXPECT_EQ(sentences("यह एक है। यह दो है।", "hin_Deva"), (Texts{"यह एक है।", "यह दो है।"}));
  EXPECT_EQ(sentences("One. Two.", "no such language"), (Texts{"One.", "Two."}));
}

TEST(Sentences, Lines) {
  const std::string text = "  # Title\n\n\n- a\r\n\t- b  \nlast";
  EXPECT_EQ(texts_of(text, lines_of(text)), (Texts{"# Title", "- a", "- b", "last"}));
}

TEST(Sentences, ScriptsWithoutSpaces) {
  for (const char32_t c : {U'好', U'。', U'あ', U'ア', U'ส', U'（'})
    EXPECT_TRUE(is_written_without_spaces(c)) << static_cast<uint32_t>(c);
  for (const char32_t c : {U'a', U'.', U'한', U'я', U'1'})
    EXPECT_FALSE(is_written_without_spaces(c)) << static_cast<uint32_t>(c);
}

// Whatever the text: spans ascend, are not empty, begin and end with no white space, and between
// them there is nothing else.
TEST(Sentences, NothingIsLostOfRandomTexts) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const Texts words{"a",  "B.", "Dr.",    " ",  "\n",     "1.",   "!",    "?", "。",
                    "「", "」", "\u00a0", "“",  "”",      "(",    ")",    "é", "好",
                    "\t", "…",  "x",      "\r", "\u2028", "🙂", "e.g.", "."};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (unsigned i = random() % 40; i > 0; --i) text += words[random() % words.size()];
    for (const auto& spans : {sentences_of(text, "en"), sentences_of(text, "de"), lines_of(text)}) {
      std::string rest;
      size_t at = 0;
      for (const TextSpan& span : spans) {
        ASSERT_LE(at, span.begin);
        ASSERT_LT(span.begin, span.end);
        ASSERT_EQ(find_invalid_utf8(text.substr(span.begin, span.end - span.begin)),
                  std::string::npos);
        ASSERT_FALSE(is_space(code_point_at(text, span.begin).value));
        ASSERT_FALSE(is_space(code_point_at(text, previous_position(text, span.end)).value));
        rest += text.substr(at, span.begin - at);
        at = span.end;
      }
      rest += text.substr(at);
      for (size_t i = 0; i < rest.size();) {
        const CodePoint c = code_point_at(rest, i);
        ASSERT_TRUE(is_space(c.value)) << text;
        i += static_cast<size_t>(c.length);
      }
    }
    const std::vector<size_t> breaks = line_breaks_of(text);
    ASSERT_EQ(breaks.empty(), text.empty());
    if (!text.empty()) {
      ASSERT_EQ(breaks.back(), text.size());
    }
  }
}

}  // namespace
}  // namespace tandem
