// Decoders of tokenizer.json by hand; components_test.cc has the library's own answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

std::unique_ptr<Decoder> decoder_of(const char* text) {
  const json component = json_from<json>(text);
  return make_decoder(JsonView(component, "test"));
}

// What each token adds, and the end.
std::vector<std::string> pieces(const Decoder& decoder, const std::vector<std::string>& tokens) {
  const auto stream = decoder.stream();
  std::vector<std::string> out;
  for (const std::string& token : tokens) out.push_back(stream->append(token));
  out.push_back(stream->finish());
  return out;
}

TEST(Decoder, TextIsGivenAsSoonAsItIsCertain) {
  EXPECT_THAT(pieces(*decoder_of(R"({"type": "BPEDecoder", "suffix": "</w>"})"),
                     {"a", "b</w>", "c", "d</w>"}),
              ElementsAre("a", "", "b c", "", "d"));
  EXPECT_THAT(pieces(*decoder_of(R"({"type": "WordPiece", "prefix": "##", "cleanup": true})"),
                     {"a", "##b", "c", "."}),
              ElementsAre("a", "b", " c", ".", ""));
  EXPECT_THAT(pieces(*decoder_of(R"({"type": "Sequence", "decoders": [
                  {"type": "Replace", "pattern": {"String": "_"}, "content": " "},
                  {"type": "ByteFallback"}, {"type": "Fuse"},
                  {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})"),
                     {"_a", "<0xC3>", "<0xA9>", "_", "<0xC3>"}),
              ElementsAre("a", "", "", "\u00E9 ", "", "\uFFFD"));
  EXPECT_THAT(pieces(*decoder_of(R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
                  {"type": "Replace", "pattern": {"String": "abc"}, "content": "x"}]})"),
                     {"aab", "c", "ab", "d"}),
              ElementsAre("a", "x", "", "abd", ""));
}

TEST(Decoder, BytesOfATokenInTheMiddle) {
  EXPECT_EQ(
      decoder_of(R"({"type": "WordPiece", "prefix": "##", "cleanup": true})")->token_bytes("a"),
      " a");
  EXPECT_EQ(decoder_of(R"({"type": "Metaspace", "replacement": "_"})")->token_bytes("_a_"), " a ");
  const auto bytes = decoder_of(R"({"type": "Sequence", "decoders": [{"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": "a", "start": 1, "stop": 0}]})");
  EXPECT_EQ(bytes->token_bytes("<0xE2>"), "\xE2");
  EXPECT_EQ(bytes->token_bytes("ab"), "ab");
}

TEST(Decoder, WrongComponentsAreErrors) {
  for (const char* wrong :
       {R"({"type": "Nothing"})", R"({"type": "Strip", "content": "ab", "start": 1, "stop": 0})",
        R"({"type": "Strip", "content": "a", "start": -1, "stop": 0})",
        R"({"type": "Replace", "pattern": {"Regex": "["}, "content": ""})"})
    EXPECT_THROW(decoder_of(wrong), InputError) << wrong;
}

TEST(Decoder, TokensDoNotGrowWithoutBound) {
  json steps = json::array();
  for (int i = 0; i < 20; ++i)
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  const json component = {{"type", "Sequence"}, {"decoders", steps}};
  EXPECT_THROW(make_decoder(JsonView(component, "test")), InputError);
}

}  // namespace
}  // namespace tandem
