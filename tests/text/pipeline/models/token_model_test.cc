// Models of tokenizer.json by hand; components_test.cc has the library's own answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
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
using testing::HasSubstr;

std::vector<int32_t> encode(const json& model, const std::string& word) {
  std::vector<int32_t> ids;
  GrowthBudget budget("test", word.size());
  make_token_model(JsonView(model, "test"))->word_encoder(budget)->encode(word, ids);
  return ids;
}

TEST(Unigram, TheMostLikelySegmentation) {
  json model = json_from<json>(R"({"type": "Unigram", "unk_id": 0, "vocab": [
      ["<unk>", 0.0], ["a", -2.0], ["b", -2.0], ["ab", -3.0], ["abc", -9.0]]})");
  EXPECT_THAT(encode(model, "abab"), ElementsAre(3, 3));
  EXPECT_THAT(encode(model, "abc"), ElementsAre(4));
  EXPECT_THAT(encode(model, "ba"), ElementsAre(2, 1));
  EXPECT_THAT(encode(model, "\u00E9xa"), ElementsAre(0, 1));  // one unknown
  EXPECT_THAT(encode(model, ""), ElementsAre());
  model["unk_id"] = nullptr;
  EXPECT_THROW(encode(model, "xa"), InputError);
  model["byte_fallback"] = true;  // without tokens for bytes it does nothing
  model["unk_id"] = 0;
  EXPECT_THAT(encode(model, "xa"), ElementsAre(0, 1));
}

TEST(Unigram, BytesForUnknownCharacters) {
  json vocab = json::array({json::array({"<unk>", 0.0}), json::array({"a", -1.0})});
  constexpr const char* kHex = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte)
    vocab.push_back(
        json::array({std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">", 0.0}));
  const json model = {
      {"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}, {"byte_fallback", true}};
  EXPECT_THAT(encode(model, "a\u00E9"), ElementsAre(1, 2 + 0xC3, 2 + 0xA9));
}

// The last one of a token that is there twice counts.
TEST(Unigram, RepeatedTokens) {
  const json model = json_from<json>(
      R"({"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1], ["a", -2]]})");
  EXPECT_THAT(encode(model, "aa"), ElementsAre(2, 2));
}

// The library reads both scores as -1.898497291160264, and of equal ways takes the first.
TEST(Unigram, ScoresAreReadAsInTheLibrary) {
  const json model = json_from<json>(R"({"type": "Unigram", "unk_id": 0, "vocab": [
      ["<unk>", 0], ["a", 0.0], ["b", -1.8984972911602638], ["ab", -1.898497291160264]]})");
  EXPECT_THAT(encode(model, "ab"), ElementsAre(3));
}

TEST(WordPiece, TheLongestPieces) {
  json model = json_from<json>(R"({
      "type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "#",
      "max_input_chars_per_word": 4,
      "vocab": {"?": 0, "a": 1, "ab": 2, "#b": 3, "#c": 4, "#bc": 5, "#": 6}})");
  EXPECT_THAT(encode(model, "abc"), ElementsAre(2, 4));
  EXPECT_THAT(encode(model, "abbc"), ElementsAre(2, 5));
  EXPECT_THAT(encode(model, "abx"), ElementsAre(0));
  EXPECT_THAT(encode(model, "abbbc"), ElementsAre(0));  // too long
  model.erase("type");
  EXPECT_THAT(encode(model, "abc"), ElementsAre(2, 4));
  model["unk_token"] = "none";
  EXPECT_THROW(encode(model, "x"), InputError);
}

TEST(WordLevel, WholeWords) {
  json model = json_from<json>(
      R"({"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "a b": 2}})");
  EXPECT_THAT(encode(model, "a b"), ElementsAre(2));
  EXPECT_THAT(encode(model, "b"), ElementsAre(0));
  model["unk_token"] = "none";
  EXPECT_THROW(encode(model, "b"), InputError);
}

// A word as long as a request: greedy search over all ends would be quadratic.
TEST(WordPiece, LongWordsTakeLinearTime) {
  const json model = json_from<json>(R"({
      "type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "",
      "max_input_chars_per_word": 18446744073709551615, "vocab": {"?": 0, "a": 1, "aa": 2}})");
  EXPECT_EQ(encode(model, std::string(1000000, 'a')).size(), 500000u);
}

TEST(Unigram, WrongVocabulariesAreErrors) {
  const auto error = [](const json& vocab) {
    const json model = {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}};
    try {
      make_token_model(JsonView(model, "test"));
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_THAT(error(json::array()), HasSubstr("vocab: expected a list of tokens"));
  EXPECT_THAT(error(json::array({json::array({"a"})})), HasSubstr("a token and its score"));
  EXPECT_THAT(error(json::array({json::array({"a", "b"})})), HasSubstr("expected a number"));
  const json model =
      json_from<json>(R"({"type": "Unigram", "unk_id": 3, "vocab": [["a", 0], ["b", 1]]})");
  EXPECT_THROW(make_token_model(JsonView(model, "test")), InputError);
}

}  // namespace
}  // namespace tandem
