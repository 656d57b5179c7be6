// GPT-2's words, found by hand, against the pattern itself in Oniguruma.
#include "text/pipeline/pre_tokenizers/byte_level.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/strings/utf8.h"
#include "text/pipeline/pre_tokenizers/split.h"

namespace tandem {
namespace {

std::vector<std::string> words_by_hand(const std::string& text) {
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = gpt2_word_end(text, at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::string> words_by_pattern(const SplitPreTokenizer& pattern,
                                          const std::string& text) {
  std::vector<std::string> words;
  GrowthBudget budget("test", text.size());
  pattern.split({text}, budget, [&](const Word& word) { words.emplace_back(word.text); });
  return words;
}

char32_t random_character(std::mt19937_64& rng) {
  static const std::u32string kSpaces =
      U" \t\n\v\f\r\x1C\u0085\u00A0\u1680\u180E\u2000\u200A\u200B\u2028\u2029\u202F\u205F\u2060"
      U"\u3000\uFEFF";
  switch (rng() % 5) {
    case 0: return U"'stremvldSTREMVLD"[rng() % 17];
    case 1: return kSpaces[rng() % kSpaces.size()];
    case 2: return static_cast<char32_t>(rng() % 0x250);
    case 3: return U' ';
    // Up to here Oniguruma of every platform has the characters of our tables.
    default: return static_cast<char32_t>(0x250 + rng() % 0x600);
  }
}

TEST(ByteLevel, WordsAreThoseOfThePattern) {
  const nlohmann::json json = {
      {"type", "Split"},
      {"behavior", "Isolated"},
      {"invert", false},
      {"pattern",
       {{"Regex",
         R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"}}}};
  const SplitPreTokenizer pattern(JsonView(json, "test"));
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 rng(seed);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (size_t n = rng() % 24; n > 0; --n) append_utf8(random_character(rng), text);
    ASSERT_EQ(words_by_hand(text), words_by_pattern(pattern, text)) << testing::PrintToString(text);
  }
}

TEST(ByteLevel, ByteCharactersComeBackAsBytes) {
  const ByteLevelDecoder decoder;
  EXPECT_EQ(decoder.token_bytes("\u0120the"), " the");
  EXPECT_EQ(decoder.token_bytes("\u00E2\u0124"), "\xE2\x82");
  EXPECT_EQ(decoder.token_bytes("a b"), "a b");  // ' ' is no byte's character
  EXPECT_EQ(decoder.token_bytes("\u0120\u20AC"), "\u0120\u20AC");
  EXPECT_EQ(decoder.token_bytes(""), "");
}

}  // namespace
}  // namespace tandem
