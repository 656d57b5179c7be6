// Files that would make a long text of a short one, step by step or at once: each is an error that
// names the file and the limit, and nothing takes memory or time for it.
#include "text/pipeline/growth_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/strings/base64.h"
#include "tests/support/sanitized.h"
#include "text/pipeline/text_pipeline.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_pipeline.h"

namespace tandem::growth_budget_test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

template <class Run>
std::string error_of(const Run& run) {
  try {
    run();
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

// As often as a sequence may have it.
json repeated(const json& part, const json& before = nullptr) {
  json out = json::array();
  while (out.size() < kMaxParts) {
    if (!before.is_null()) out.push_back(before);
    out.push_back(part);
  }
  return out;
}

json normalizers(const json& parts) { return {{"type", "Sequence"}, {"normalizers", parts}}; }
json pre_tokenizers(const json& parts) { return {{"type", "Sequence"}, {"pretokenizers", parts}}; }
json replace(const std::string& what, const std::string& with) {
  return {{"type", "Replace"}, {"pattern", {{"String", what}}}, {"content", with}};
}
json byte_level(bool prefix, bool words) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", prefix}, {"use_regex", words}};
}
const json kCharacters = {
    {"type", "Split"}, {"pattern", {{"Regex", "."}}}, {"behavior", "Isolated"}, {"invert", false}};

// A tokenizer of words, with other components in their places.
std::unique_ptr<Tokenizer> tokenizer_with(const json& components) {
  json document = {
      {"model",
       {{"type", "WordLevel"}, {"vocab", {{"<unk>", 0}, {"a", 1}}}, {"unk_token", "<unk>"}}}};
  document.update(components);
  return make_tokenizer(tokenizer_from_document(document, "DIR/tokenizer.json"));
}

// A table of SentencePiece that makes `made` of each 'a'. A unit of its trie has a label, whether a
// value is under it (bit 8), and from bit 10 on where its children are: at that, XOR their byte.
std::string charsmap(const std::string& made) {
  std::string trie(512 * 4, '\0');
  const auto put = [&](size_t at, uint32_t unit) {
    for (size_t i = 0; i < 4; ++i) trie[4 * at + i] = static_cast<char>(unit >> (8 * i));
  };
  put(0, 256u << 10);
  put(256 ^ 'a', uint32_t{'a'} | 1u << 8 | (256u ^ 'a' ^ 1u) << 10);
  put(1, 1u << 31);  // the value: where in the strings `made` begins
  std::string size(4, '\0');
  for (size_t i = 0; i < 4; ++i) size[i] = static_cast<char>(trie.size() >> (8 * i));
  return size + trie + made + '\0';
}

constexpr std::chrono::seconds kAtMost{testing_support::kSanitized ? 200 : 20};

class Growth : public testing::Test {
 protected:
  void TearDown() override { EXPECT_LT(std::chrono::steady_clock::now() - begin_, kAtMost); }
  // What an encode() of the text says.
  static std::string refusal(const json& components, const std::string& text) {
    const auto tokenizer = tokenizer_with(components);
    return error_of([&] { tokenizer->encode(text); });
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

TEST(GrowthBudget, CountsWhatStepsAdd) {
  GrowthBudget budget("FILE", 10);
  budget.spend(10, 160);
  budget.spend(160, 10);  // gives nothing back
  budget.spend(10, (1 << 20) + 20);
  EXPECT_EQ(error_of([&] { budget.check(10, 11); }),
            "FILE: its stages add more than 1048736 bytes to a text of 10");
  EXPECT_EQ(error_of([&] { budget.spend(11, 10); }), "no error");
  EXPECT_THROW(budget.spend(0, 1), InputError);
}

TEST_F(Growth, OfPreTokenizers) {
  const auto named =
      AllOf(HasSubstr("DIR/tokenizer.json: "), HasSubstr("add more than"), HasSubstr("bytes"));
  for (const bool words : {false, true})
    for (const char* text : {"\u00E9", "a b"})
      EXPECT_THAT(
          refusal({{"pre_tokenizer", pre_tokenizers(repeated(byte_level(true, words)))}}, text),
          named)
          << text << words;
  // Each word gets a prefix, each character becomes a word.
  const json metaspace = {
      {"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "always"}, {"split", false}};
  json parts = json::array();
  for (int i = 0; i < 31; ++i) {
    parts.push_back(kCharacters);
    parts.push_back(metaspace);
    parts.back()["replacement"] = std::string(1, "_^+"[i % 3]);
  }
  EXPECT_THAT(refusal({{"pre_tokenizer", pre_tokenizers(parts)}}, "ab"), named);
  // Nothing is left of all of it.
  parts.push_back({{"type", "Split"},
                   {"pattern", {{"Regex", "."}}},
                   {"behavior", "Removed"},
                   {"invert", false}});
  EXPECT_THAT(refusal({{"pre_tokenizer", pre_tokenizers(parts)}}, "ab"), named);
  // Behind a normalizer that leads to aligned texts.
  EXPECT_THAT(refusal({{"normalizer", {{"type", "NFD"}}},
                       {"pre_tokenizer", pre_tokenizers(repeated(byte_level(false, false)))}},
                      "\u00E9"),
              named);
}

TEST_F(Growth, OfNormalizers) {
  const auto named = HasSubstr("DIR/tokenizer.json: its stages add more than 10");
  EXPECT_THAT(refusal({{"normalizer", normalizers(repeated({{"type", "ByteLevel"}}))}}, "\u00E9"),
              named);
  EXPECT_THAT(refusal({{"normalizer", normalizers(repeated(replace("a", "aa")))}}, "a"), named);
  EXPECT_THAT(
      refusal({{"normalizer", replace("a", std::string(60'000, 'b'))}}, std::string(20, 'a')),
      named);
  EXPECT_THAT(refusal({{"normalizer", replace("", std::string(60'000, 'b'))},
                       {"pre_tokenizer", byte_level(true, false)}},
                      std::string(20, 'a')),
              named);
  const json precompiled = {
      {"type", "Precompiled"},
      {"precompiled_charsmap", encode_base64(charsmap(std::string(60'000, 'b')))}};
  EXPECT_THAT(refusal({{"normalizer", precompiled}}, std::string(20, 'a')), named);
  EXPECT_THAT(refusal({{"normalizer", normalizers({{{"type", "NFD"}}, precompiled})},
                       {"pre_tokenizer", byte_level(true, false)}},
                      std::string(20, 'a') + "\u00E9"),
              named);
  // The charsmap is one that works.
  EXPECT_EQ(tokenizer_with({{"normalizer",
                             {{"type", "Precompiled"},
                              {"precompiled_charsmap", encode_base64(charsmap("a"))}}}})
                ->encode("a"),
            std::vector<int32_t>{1});
}

// What is little for each part is much for all.
TEST_F(Growth, OfPartsBetweenAddedTokens) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "b,";
  const json tokens = {{{"id", 2}, {"content", ","}, {"normalized", false}}};
  EXPECT_THAT(
      refusal({{"added_tokens", tokens},
               {"normalizer", {{"type", "Prepend"}, {"prepend", std::string(60'000, 'b')}}}},
              text),
      HasSubstr("DIR/tokenizer.json: its stages add more than 10"));
}

// They are normalised when the file is read.
TEST_F(Growth, OfAddedTokens) {
  json tokens = json::array();
  for (int i = 0; i < 20; ++i)
    tokens.push_back({{"id", 2 + i}, {"content", "a" + std::to_string(i)}, {"normalized", true}});
  EXPECT_THAT(error_of([&] {
                tokenizer_with({{"added_tokens", tokens},
                                {"normalizer", replace("a", std::string(60'000, 'b'))}});
              }),
              HasSubstr("DIR/tokenizer.json: its stages add more than 10"));
}

TEST_F(Growth, OfBytesOfAPrefix) {
  json model = {{"type", "BPE"}, {"byte_fallback", true}, {"merges", json::array()}};
  json vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    static constexpr char kHex[] = "0123456789ABCDEF";
    vocabulary[std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">"] = byte;
  }
  model["vocab"] = vocabulary;
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    json with = model;
    with[affix] = std::string(1000, 'p');
    EXPECT_THAT(refusal({{"model", with}, {"pre_tokenizer", kCharacters}}, std::string(3000, 'a')),
                affix == std::string("end_of_word_suffix")
                    ? "DIR/tokenizer.json: its stages add more than 1096576 bytes to a text of 3000"
                    : "no error");
    EXPECT_THAT(
        refusal({{"model", with}}, std::string(3000, 'a')),
        affix == std::string("end_of_word_suffix")
            ? "no error"
            : "DIR/tokenizer.json: its stages add more than 1096576 bytes to a text of 3000");
    with[affix] = std::string(1025, 'p');
    EXPECT_THAT(error_of([&] {
                  tokenizer_with({{"model", with}});
                }),
                HasSubstr(std::string("model.") + affix + ": longer than 1024 bytes"));
  }
}

TEST_F(Growth, OfTemplates) {
  json parts = json::array();
  for (int i = 0; i < 9; ++i) parts.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  const json pair = {{{"Sequence", {{"id", "A"}}}}, {{"Sequence", {{"id", "B"}}}}};
  const json processor = {{"type", "TemplateProcessing"},
                          {"single", parts},
                          {"pair", pair},
                          {"special_tokens", json::object()}};
  EXPECT_EQ(error_of([&] {
              tokenizer_with({{"post_processor", processor}});
            }),
            "DIR/tokenizer.json: post_processor.single: has more than 8 texts");
}

TEST_F(Growth, OfDecoders) {
  for (const json& part : {json{{"type", "BPEDecoder"}, {"suffix", ""}},
                           json{{"type", "CTC"},
                                {"pad_token", "<pad>"},
                                {"word_delimiter_token", ""},
                                {"cleanup", true}},
                           replace("a", "aa")}) {
    SCOPED_TRACE(part.dump());
    EXPECT_THAT(
        error_of([&] {
          tokenizer_with({{"decoder", {{"type", "Sequence"}, {"decoders", repeated(part)}}}});
        }),
        HasSubstr("the decoders make more than 1024 bytes of a byte"));
    const auto few =
        tokenizer_with({{"decoder", {{"type", "Sequence"}, {"decoders", {part, part}}}}});
    EXPECT_LT(few->decode({1, 1}, false).size(), 20u);
  }
}

// Texts that grow, but not for ever, are the library's (0.23): their number of tokens, and the
// words.
TEST_F(Growth, LeavesOthersAlone) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "\uFDFA \uAC01";
  const json metaspace = {{"type", "Metaspace"}, {"replacement", "\u2581"}};
  const auto tokenizer =
      tokenizer_with({{"normalizer", {{"type", "NFKD"}}},
                      {"pre_tokenizer", pre_tokenizers({metaspace, byte_level(false, true)})}});
  EXPECT_EQ(tokenizer->encode(text).size(), 160'002u);

  const json vocabulary = {
      {"\u0120\u00C4\u0142\u00C3\u0126\u00C5\u0124\u00C3\u0125\u00C4\u00A5", 0},
      {"\u0120\u00C3\u0124", 1},
      {"\u00C2\u00A9", 2},
      {"\u0120\u00C4\u0142\u00C3\u0126\u00C5\u0124b", 3}};
  const json thrice(3, byte_level(true, true));
  EXPECT_EQ(tokenizer_with(
                {{"pre_tokenizer", pre_tokenizers(thrice)},
                 {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "none"}}}})
                ->encode("\u00E9 b"),
            (std::vector<int32_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace tandem::growth_budget_test
