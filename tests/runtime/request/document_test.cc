#include "runtime/request/document.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/strings/utf8.h"

namespace tandem {
namespace {

using Texts = std::vector<std::string>;

// A model whose tokens are characters.
FitsModel at_most(size_t characters) {
  return [=](std::string_view text) {
    size_t n = 0;
    for (size_t at = 0; at < text.size(); ++n)
      at += static_cast<size_t>(code_point_at(text, at).length);
    return n <= characters;
  };
}

Texts parts_of(const std::string& text, Split split, size_t most) {
  Texts out;
  for (const DocumentPart& part : split_document(text, split, "en", at_most(most)).parts)
    out.push_back(part.text);
  return out;
}

std::string joined(const SplitDocument& document) {
  std::string out;
  for (const DocumentPart& part : document.parts) out += part.before + part.text;
  return out + document.after;
}

TEST(Document, Sentences) {
  EXPECT_EQ(parts_of("One is here. Two!\n\n  Three", Split::kSentences, 100),
            (Texts{"One is here.", "Two!", "Three"}));
  EXPECT_EQ(parts_of("One is here. Two!", Split::kSentences, 8),
            (Texts{"One is", "here.", "Two!"}));
  EXPECT_EQ(parts_of("Abcdefghij k.", Split::kSentences, 4), (Texts{"Abcd", "efgh", "ij", "k."}));
  EXPECT_EQ(parts_of(" \n ", Split::kSentences, 4), Texts{});
}

TEST(Document, ParagraphsAreLines) {
  EXPECT_EQ(parts_of("One. Two.\nThree. Four five.\n", Split::kParagraphs, 9),
            (Texts{"One. Two.", "Three.", "Four", "five."}));
}

TEST(Document, ChunksAreOfWholeSentences) {
  EXPECT_EQ(chunks_of("Aa. Bb. Cc.\n\nDd. Ee.", "en", at_most(8)),
            (Texts{"Aa. Bb.", "Cc.\n\nDd.", "Ee."}));
  EXPECT_EQ(chunks_of("Aa. Bb.", "en", at_most(100)), (Texts{"Aa. Bb."}));
  EXPECT_EQ(chunks_of("", "en", at_most(100)), Texts{});
}

TEST(Document, AnswersKeepTheLayout) {
  std::string out;
  append_answer(out, "  ", " Eins. ");
  append_answer(out, " ", "Zwei.");
  append_answer(out, "\n\n\t- ", "Drei.");
  EXPECT_EQ(out, "  Eins. Zwei.\n\n\t- Drei.");
}

TEST(Document, EmptyAnswersLeaveNoSpace) {
  std::string out;
  for (const auto& [before, answer] :
       {std::pair("  ", ""), std::pair(" ", "Two."), std::pair(" ", ""), std::pair("\n\t", ""),
        std::pair(" ", " "), std::pair(" ", "Six."), std::pair("\n", "")})
    append_answer(out, before, answer);
  EXPECT_EQ(out, "  Two.\n\tSix.\n");
}

TEST(Document, SpacesAreThoseOfTheAnswersScript) {
  std::string english, chinese;
  append_answer(english, "", "It is fine.");  // 今天天气很好。我们去吧！
  append_answer(english, "", "Let us go!");
  EXPECT_EQ(english, "It is fine. Let us go!");
  append_answer(chinese, "", "今天天气很好。");
  append_answer(chinese, " ", "我们去吧！");
  append_answer(chinese, "\n", "好。");
  EXPECT_EQ(chinese, "今天天气很好。我们去吧！\n好。");
}

// Whatever the text: nothing is lost, and every part fits.
TEST(Document, RandomTexts) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const Texts words{"a", "word", "B.", " ",  " ", "\n",   "1.",
                    "!", "。",   "好", "\t", "é", "🙂", "\r\n"};
  for (int round = 0; round < 1000; ++round) {
    std::string text;
    for (unsigned i = random() % 60; i > 0; --i) text += words[random() % words.size()];
    const FitsModel fits = at_most(1 + random() % 20);
    for (const Split split : {Split::kSentences, Split::kParagraphs}) {
      const SplitDocument document = split_document(text, split, "en", fits);
      ASSERT_EQ(joined(document), text);
      for (const DocumentPart& part : document.parts) {
        ASSERT_TRUE(fits(part.text)) << part.text;
        ASSERT_FALSE(part.text.empty());
      }
    }
    std::string of_chunks, of_parts;
    const auto add = [](std::string& out, std::string_view chunk) {
      for (const char c : chunk)
        if (std::string_view(" \n\t\r").find(c) == std::string_view::npos) out.push_back(c);
    };
    for (const std::string& chunk : chunks_of(text, "en", fits)) {
      ASSERT_TRUE(fits(chunk)) << chunk;
      add(of_chunks, chunk);
    }
    add(of_parts, text);
    ASSERT_EQ(of_chunks, of_parts);
  }
}

}  // namespace
}  // namespace tandem
