// The trie against HuggingFace's (transformers 5.24.0, tokenization_python.Trie) over random
// strings.
#include "text/python/text_trie.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace tandem {
namespace {

using Strings = std::vector<std::string>;

TEST(TextTrie, CutsAsHuggingFaces) {
  struct Case {
    Strings tokens;
    std::string text;
    Strings parts;
  };
  const std::vector<Case> cases = {
      {{"éa", "b"}, "acacééééébca", {"acacééééé", "b", "ca"}},
      {{"ac", "cccé", "a", "c"}, "éccb", {"é", "c", "c", "b"}},
      {{"cc", "céa", "b"}, "bcbc", {"b", "c", "b", "c"}},
      {{"cbaa", "cb"}, "cacb", {"ca", "cb"}},
      {{"aaéa", "cb"}, "aéaacbcéac", {"aéaa", "cb", "céac"}},
      {{"aa", "bc"}, "baééacbcéaéc", {"baééac", "bc", "éaéc"}},
      {{"a"}, "aaécbca", {"a", "a", "écbc", "a"}},
      {{"éccc", "cé", "b"}, "aéabacéé", {"aéa", "b", "a", "cé", "é"}},
      {{"c", "a", "bbéa", "a"}, "ébacaaaécc", {"éb", "a", "c", "a", "a", "a", "é", "c", "c"}},
      {{"bbcb", "cb", "écb", "acé"}, "ébbcbcébéébé", {"é", "bbcb", "cébéébé"}},
      {{"a"}, "cacé", {"c", "a", "cé"}},
      {{"a", "céé", "abéé"}, "ca", {"c", "a"}},
      {{"é", "é", "acc"}, "éccacaécacbb", {"é", "ccaca", "é", "cacbb"}},
      {{"b", "aaa", "bé", "bbéb"}, "bbbcccaé", {"b", "b", "b", "cccaé"}},
      {{"bé"}, "éaébéca", {"éaé", "bé", "ca"}},
      {{"éébé", "c", "céc", "babc"}, "cbébbbabébab", {"c", "bébbbabébab"}},
      {{"béc", "caéc"}, "éacbéaécébéc", {"éacbéaécé", "béc"}},
      {{"b", "aa"}, "cbb", {"c", "b", "b"}},
      {{"béb", "a", "a", "b"}, "aaéé", {"a", "a", "éé"}},
      {{"é", "ééa"}, "ééba", {"é", "é", "ba"}},
      {{"b", "ca", "béé", "c"}, "cbb", {"c", "b", "b"}},
      {{"a", "ca"}, "éabbcééacé", {"é", "a", "bbcéé", "a", "cé"}},
      {{"é", "écbc", "ab", "é"}, "cééccécbcbaé", {"c", "é", "é", "cc", "écbc", "ba", "é"}},
      {{"c"}, "aécééccabbé", {"aé", "c", "éé", "c", "c", "abbé"}}};
  for (const Case& c : cases) {
    TextTrie trie;
    for (const std::string& token : c.tokens) trie.insert(token);
    const auto parts = trie.split(c.text);
    EXPECT_EQ(Strings(parts.begin(), parts.end()), c.parts) << c.text;
  }
}

TEST(TextTrie, NothingToCut) {
  TextTrie trie;
  EXPECT_TRUE(trie.split("").empty());
  EXPECT_THAT(trie.split("ab"), testing::ElementsAre("ab"));
  trie.insert("");
  EXPECT_THAT(trie.split("ab"), testing::ElementsAre("ab"));
}

}  // namespace
}  // namespace tandem
