// SentencePiece's stages as tokenizer.json has them: Metaspace, WhitespaceSplit, Precompiled,
// Strip, Replace, Unigram.
#include "text/pipeline/pre_tokenizers/metaspace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/base64.h"
#include "base/error.h"
#include "text/pipeline/text_pipeline.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> split(const json& component, const std::string& text) {
  std::vector<std::string> words;
  make_pre_tokenizer(JsonView(component, "test"))->split(text, [&](std::string_view word) {
    words.emplace_back(word);
  });
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
  EXPECT_THROW(split(metaspace({{"prepend_scheme", "first"}}), "a"), InputError);
  EXPECT_THROW(split(metaspace({{"replacement", ""}}), "a"), InputError);
}

TEST(Metaspace, Decodes) {
  const json component = metaspace({{"prepend_scheme", "always"}});
  const auto decoder = make_decoder(JsonView(component, "test"));
  EXPECT_EQ(decoder->token_bytes("_a_"), " a ");
  EXPECT_EQ(decoder->first_token_bytes("_a_"), "a");
  const json never = metaspace({{"prepend_scheme", "never"}});
  EXPECT_EQ(make_decoder(JsonView(never, "test"))->first_token_bytes("_a"), " a");
}

TEST(Metaspace, TokensOfBytes) {
  const json component = {{"type", "Sequence"},
                          {"decoders", {{{"type", "ByteFallback"}}, metaspace(json::object())}}};
  const auto decoder = make_decoder(JsonView(component, "test"));
  EXPECT_EQ(decoder->byte_of("<0xE2>"), '\xE2');
  EXPECT_EQ(decoder->byte_of("<0x00>"), '\0');
  for (const char* token : {"<0xG0>", "<0xE>", "0xE2", "<0x-1>", "a"})
    EXPECT_EQ(decoder->byte_of(token), std::nullopt) << token;
  const json fuse = {{"type", "Sequence"}, {"decoders", json::array({{{"type", "Fuse"}}})}};
  EXPECT_THROW(make_decoder(JsonView(fuse, "test")), InputError);
}

json replace(const std::string& what, const std::string& with) {
  return {{"type", "Replace"}, {"pattern", {{"String", what}}}, {"content", with}};
}

TEST(Metaspace, SymbolsAndBytesInASequence) {
  json component = {
      {"type", "Sequence"},
      {"decoders", {replace("_", " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}};
  const auto decoder = make_decoder(JsonView(component, "test"));
  EXPECT_EQ(decoder->token_bytes("_a_"), " a ");
  EXPECT_EQ(decoder->first_token_bytes("_a"), " a");  // nothing was put before the text
  EXPECT_EQ(decoder->byte_of("<0xE2>"), '\xE2');
  for (const json& other : {replace("_", ""), replace("", " ")}) {
    component["decoders"][0] = other;
    EXPECT_THROW(make_decoder(JsonView(component, "test")), InputError) << other;
  }
}

TEST(Metaspace, ASpaceAtTheStartOfASequence) {
  json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  json component = {
      {"type", "Sequence"},
      {"decoders", {replace("_", " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, strip}}};
  const auto decoder = make_decoder(JsonView(component, "test"));
  EXPECT_EQ(decoder->first_token_bytes("__a_"), " a ");
  EXPECT_EQ(decoder->first_token_bytes("a_"), "a ");
  EXPECT_EQ(decoder->first_token_bytes("<0x20>"), "");
  EXPECT_EQ(decoder->first_token_bytes("<0x41>"), "<0x41>");  // a byte is not asked for as text
  EXPECT_EQ(decoder->token_bytes("__a_"), "  a ");
  const json others = {{"content", "_"}, {"start", 0}, {"stop", 1}};
  for (const auto& [key, value] : others.items()) {
    json other = component;
    other["decoders"][3][key] = value;
    EXPECT_THROW(make_decoder(JsonView(other, "test")), InputError) << other;
  }
}

TEST(WhitespaceSplit, AnyWhiteSpaceParts) {
  const json component = {{"type", "WhitespaceSplit"}};
  EXPECT_THAT(split(component, " a\tb\u2003c\n\u00E9 "), ElementsAre("a", "b", "c", "\u00E9"));
  EXPECT_THAT(split(component, " \n"), ElementsAre());
}

std::string normalize(const json& component, const std::string& text) {
  return make_normalizer(JsonView(component, "test"))->normalize(text);
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
  const json other = {{"type", "Replace"}, {"pattern", {{"Regex", "a+"}}}, {"content", "_"}};
  EXPECT_THROW(normalize(other, "a"), InputError);
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

std::vector<int32_t> encode(const json& model, const std::string& word) {
  std::vector<int32_t> ids;
  make_token_model(JsonView(model, "test"))->word_encoder()->encode(word, ids);
  return ids;
}

TEST(Unigram, TheMostLikelySegmentation) {
  json model = json::parse(R"({"type": "Unigram", "unk_id": 0, "vocab": [
      ["<unk>", 0.0], ["a", -2.0], ["b", -2.0], ["ab", -3.0], ["abc", -9.0]]})");
  EXPECT_THAT(encode(model, "abab"), ElementsAre(3, 3));
  EXPECT_THAT(encode(model, "abc"), ElementsAre(4));
  EXPECT_THAT(encode(model, "ba"), ElementsAre(2, 1));
  EXPECT_THAT(encode(model, "\u00E9xa"), ElementsAre(0, 1));  // one unknown
  EXPECT_THAT(encode(model, ""), ElementsAre());
  model["unk_id"] = nullptr;
  EXPECT_THAT(encode(model, "xa"), ElementsAre(1));
  model["byte_fallback"] = true;  // without tokens for all bytes it does nothing
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
  EXPECT_THAT(error(json::array({json::array({"a", 0}), json::array({"a", 1})})),
              HasSubstr("is there twice"));
  const json model =
      json::parse(R"({"type": "Unigram", "unk_id": 3, "vocab": [["a", 0], ["b", 1]]})");
  EXPECT_THROW(make_token_model(JsonView(model, "test")), InputError);
}

}  // namespace
}  // namespace tandem
