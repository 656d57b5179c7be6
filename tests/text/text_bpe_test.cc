// The tokenizer whose words are whole texts: spaces are SentencePiece's symbol, a character without
// a token is its bytes, and bytes become text across tokens, also while it is streamed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/strings/utf8.h"
#include "models/family.h"
#include "tests/support/files/files.h"
#include "text/sentencepiece/piece_model.h"
#include "text/tokenizer.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::ElementsAre;

constexpr int32_t kBos = 2, kUnknown = 3, kMask = 4, kSpaces = 5, kByte = 6, kFirst = 262;
constexpr const char* kSpace = "\u2581";

class TextBpe : public testing::Test {
 protected:
  TextBpe() {
    json vocab = {{"<pad>", 0},        {"<eos>", 1},      {"<bos>", kBos},
                  {"<unk>", kUnknown}, {"<mask>", kMask}, {std::string(kSpace) + kSpace, kSpaces}};
    constexpr const char* kHex = "0123456789ABCDEF";
    for (int byte = 0; byte < 256; ++byte)
      vocab[std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">"] = kByte + byte;
    const std::string space = kSpace;
    int32_t next = kFirst;
    for (const std::string& token :
         {std::string("a"), std::string("b"), space, std::string("ab"), space + "a", "b" + space})
      vocab[token] = next++;
    const json merges = json::array(
        {json::array({"a", "b"}), json::array({space, "a"}), json::array({"b", space})});
    // The class makes all other stages itself; that of the file would be none.
    const json document = {
        {"version", "1.0"},
        {"added_tokens",
         json::array({added("<bos>", kBos, true), added(space + space, kSpaces, false)})},
        {"post_processor",
         {{"type", "TemplateProcessing"},
          {"single", json::array({special("<bos>"), sequence("A")})},
          {"pair", json::array({special("<bos>"), sequence("A"), special("<bos>"), sequence("B")})},
          {"special_tokens", {{"<bos>", {{"ids", json::array({kBos})}}}}}}},
        {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
    dir_.write("tokenizer.json", document.dump());
    dir_.write("tokenizer_config.json", R"({"tokenizer_class": "GemmaTokenizerFast"})");
    tokenizer_ = load_tokenizer(dir_.path());
  }

  static json added(const std::string& content, int32_t id, bool is_special) {
    return {{"content", content}, {"id", id}, {"special", is_special}, {"normalized", false}};
  }
  static json special(const std::string& token) { return {{"SpecialToken", {{"id", token}}}}; }
  static json sequence(const std::string& id) { return {{"Sequence", {{"id", id}}}}; }
  static int32_t byte(int value) { return kByte + value; }

  test::TempDir dir_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(TextBpe, SpacesMergeLikeLetters) {
  EXPECT_THAT(tokenizer_->encode("ab"), ElementsAre(kBos, kFirst + 3));
  EXPECT_THAT(tokenizer_->encode("ab ab", false), ElementsAre(kFirst + 3, kFirst + 2, kFirst + 3));
  EXPECT_THAT(tokenizer_->encode("b b", false), ElementsAre(kFirst + 5, kFirst + 1));
  EXPECT_THAT(tokenizer_->encode("bb a", false), ElementsAre(kFirst + 1, kFirst + 1, kFirst + 4));
  // An added token is looked for before spaces are symbols.
  EXPECT_THAT(tokenizer_->encode("\u2581\u2581a", false), ElementsAre(kSpaces, kFirst));
  EXPECT_THAT(tokenizer_->encode("", true), ElementsAre(kBos));
  EXPECT_EQ(tokenizer_->decode({kBos, kFirst + 4, kSpaces, kFirst}, true), " a  a");
}

TEST_F(TextBpe, UnknownCharactersAreBytes) {
  EXPECT_THAT(tokenizer_->encode("a\u00E9\n", false),
              ElementsAre(kFirst, byte(0xC3), byte(0xA9), byte('\n')));
  EXPECT_EQ(tokenizer_->decode({kFirst, byte(0xC3), byte(0xA9), kFirst}, false), "a\u00E9a");
  // A special token that is skipped does not part bytes; one that is not does.
  EXPECT_EQ(tokenizer_->decode({byte(0xC3), kBos, byte(0xA9)}, true), "\u00E9");
  EXPECT_EQ(tokenizer_->decode({byte(0xC3), kBos, byte(0xA9)}, false), "\uFFFD<bos>\uFFFD");
  // One byte too many, and none of the run is text.
  EXPECT_EQ(tokenizer_->decode({byte('x'), byte(0xC3), byte(0xA9), byte(0xC3)}, false),
            "\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST_F(TextBpe, TheClassNamesAMask) {
  EXPECT_TRUE(tokenizer_->is_special(kMask));
  EXPECT_EQ(tokenizer_->decode({kFirst, kMask, kFirst}, true), "aa");
}

TEST_F(TextBpe, StreamedPiecesAreTheText) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 rng(seed);
  const std::vector<int32_t> some = {byte(0xC3), byte(0xA9), byte(0xE2), byte(0x82),
                                     byte(0xAC), byte('x'),  kBos,       kSpaces,
                                     kFirst,     kFirst + 4, kFirst + 5, kMask};
  for (int round = 0; round < 3000; ++round) {
    const bool skip_special = rng() % 2;
    Detokenizer detokenizer(*tokenizer_, skip_special);
    std::vector<int32_t> ids;
    std::string text;
    for (size_t n = rng() % 12; n > 0; --n) {
      ids.push_back(some[rng() % some.size()]);
      const std::string piece = detokenizer.append(ids.back());
      ASSERT_EQ(find_invalid_utf8(piece), std::string::npos);
      text += piece;
      // What is out is final.
      ASSERT_TRUE(tokenizer_->decode(ids, skip_special).starts_with(text));
    }
    text += detokenizer.finish();
    ASSERT_EQ(text, tokenizer_->decode(ids, skip_special));
  }
}

// A SentencePiece model alone: ids are the pieces' places, and merges follow from the pieces.
TEST_F(TextBpe, OfTokenizerModelAlone) {
  const auto varint = [](size_t n) {
    std::string out;
    for (; n >= 128; n >>= 7) out += static_cast<char>((n & 127) | 128);
    return out + static_cast<char>(n);
  };
  const auto piece = [&](const std::string& text, int type) {
    const std::string body = "\x0a" + varint(text.size()) + text + "\x18" + static_cast<char>(type);
    return "\x0a" + varint(body.size()) + body;
  };
  std::string model;
  for (int32_t id = 0; id < tokenizer_->size(); ++id) {
    const bool is_byte = id >= kByte && id < kFirst;
    std::string text =
        is_byte ? piece_of_byte(static_cast<char>(id - kByte)) : tokenizer_->token_bytes(id);
    for (size_t at; (at = text.find(' ')) != std::string::npos;) text.replace(at, 1, kSpace);
    constexpr int kTypes[] = {3, 3, 3, 2, 3, 4};  // of the first
    const int type = id <= kSpaces ? kTypes[id] : is_byte ? 6 : 1;
    model += piece(text, type);
  }
  test::TempDir dir;
  dir.write("tokenizer.model", model);
  dir.write("config.json", R"({"model_type": "t5gemma"})");  // which has the class
  const auto tokenizer = load_tokenizer(dir.path());
  EXPECT_EQ(tokenizer->size(), tokenizer_->size());
  // Nothing stands around a text: that is in tokenizer.json.
  for (const std::string text : {"ab ab", "bb a", "b b", "\u5317 a", "a<bos>b"})
    EXPECT_EQ(tokenizer->encode(text), tokenizer_->encode(text, false)) << text;
  EXPECT_THAT(tokenizer->encode("a  a"), ElementsAre(kFirst, kSpaces, kFirst));
  EXPECT_THAT(tokenizer->encode("<mask>a"), ElementsAre(kMask, kFirst));
  EXPECT_TRUE(tokenizer->is_special(kMask));
  EXPECT_FALSE(tokenizer->is_special(kSpaces));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("\u5317 a"), true), "\u5317 a");
}

}  // namespace
}  // namespace tandem
