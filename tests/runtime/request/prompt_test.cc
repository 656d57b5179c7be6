// Prompt formats, and what becomes of them.
#include "runtime/request/prompt.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "models/family.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "tests/text/fake_tokenizer.h"

namespace tandem {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;
constexpr int kVocab = 200;
constexpr int kPositions = 16;

ModelConfig config_of(const std::string& model_type = "bart") {
  ModelConfig config;
  config.model_type = model_type;
  config.max_position_embeddings = kPositions;
  config.bos_token_id = 0;
  config.decoder_start_token_id = 2;
  config.generation = json::object();
  return config;
}

struct Result {
  Ids encoder, decoder;
  bool default_prompt;
  proto::EncoderDecoderInputs inputs;
};

Result prepare(const json& prompt, const json& params = json::object(),
               const ModelConfig& config = config_of()) {
  const FakeTokenizer tokenizer;
  const ParamsResolver resolver(config, kVocab);
  const PreparedPrompt out =
      preprocess(read_prompt(prompt), read_options(params), &tokenizer, config, resolver);
  const auto& encoder = out.inputs.encoder_prompt_token_ids();
  const auto& decoder = out.inputs.prompt_token_ids();
  EXPECT_EQ(out.lengths.decoder_prompt_len, decoder.size());
  return {{encoder.begin(), encoder.end()},
          {decoder.begin(), decoder.end()},
          out.lengths.default_decoder_prompt,
          out.inputs};
}

void expect_error(const std::string& param, const json& prompt, const std::string& text = "",
                  ErrorKind kind = ErrorKind::kInvalidRequest,
                  const json& params = json::object()) {
  try {
    prepare(prompt, params);
    ADD_FAILURE() << prompt << " is accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), param) << error.what();
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

json J(const char* text) { return json_from<json>(text); }

// Bytes become id 3 + byte, between 0 and 2.
Ids encoded(const std::string& text) { return FakeTokenizer().encode(text); }

TEST(Prompt, SingletonsGoToTheEncoder) {
  for (const char* prompt :
       {R"("ab")", R"({"prompt": "ab"})", R"({"prompt": "ab", "multi_modal_data": null})",
        R"({"prompt": "ab", "multi_modal_data": {}})"}) {
    SCOPED_TRACE(prompt);
    const Result r = prepare(J(prompt));
    EXPECT_EQ(r.encoder, (Ids{0, 3 + 'a', 3 + 'b', 2}));
    EXPECT_EQ(r.decoder, (Ids{2, 0}));
    EXPECT_TRUE(r.default_prompt);
    EXPECT_EQ(r.inputs.encoder_prompt(), "ab");
    EXPECT_FALSE(r.inputs.has_prompt());
  }
  for (const char* prompt :
       {R"({"prompt_token_ids": [2, 0, 171, 5, 2]})", R"({"prompt_tokens": [2, 0, 171, 5, 2]})",
        R"([2, 0, 171, 5, 2])", R"({"encoder_prompt": [2, 0, 171, 5, 2]})",
        R"({"encoder_prompt": {"prompt_token_ids": [2, 0, 171, 5, 2]}, "decoder_prompt": null})"}) {
    SCOPED_TRACE(prompt);
    const Result r = prepare(J(prompt));
    EXPECT_EQ(r.encoder, (Ids{2, 0, 171, 5, 2}));
    EXPECT_EQ(r.decoder, (Ids{2, 0}));
    EXPECT_FALSE(r.inputs.has_encoder_prompt());
  }
}

// The model would make up a sentence. A request that begins the output itself, scores a target or
// generates nothing has something to go by.
TEST(Prompt, AnEmptyTextIsAnErrorUnlessAllowed) {
  for (const char* blank : {"", " ", "\n\t "}) {
    const json text = blank;
    expect_error("prompt", text, "allow_empty_prompt");
    expect_error("prompt.prompt", {{"prompt", text}}, "allow_empty_prompt");
    expect_error("prompt.encoder_prompt", {{"encoder_prompt", text}}, "allow_empty_prompt");
    expect_error("prompt", text, "allow_empty_prompt", ErrorKind::kInvalidRequest,
                 {{"allow_empty_prompt", false}});
    EXPECT_EQ(prepare(text, {{"allow_empty_prompt", true}}).encoder, encoded(blank));
    EXPECT_EQ(prepare({{"encoder_prompt", text}, {"decoder_prompt", {2}}}).encoder, encoded(blank));
    EXPECT_EQ(prepare({{"encoder_prompt", text}, {"target", "a"}, {"append_eos", false}}).encoder,
              encoded(blank));
  }
  for (const char* blank : {" ", "\u00a0\u3000"})
    expect_error("prompt", blank, "nothing but white space");
  EXPECT_EQ(prepare(" a ").encoder, encoded(" a "));
  EXPECT_EQ(prepare(J("[0, 2]")).encoder, (Ids{0, 2}));  // tokens are what they are
}

TEST(Prompt, Pairs) {
  const Result ids = prepare(J(
      R"({"encoder_prompt": {"prompt": "ab"}, "decoder_prompt": {"prompt_token_ids": [2, 0, 51, 178, 2]}})"));
  EXPECT_EQ(ids.encoder, encoded("ab"));
  EXPECT_EQ(ids.decoder, (Ids{2, 0, 51, 178, 2}));
  EXPECT_FALSE(ids.default_prompt);
  const Result prepended = prepare(J(R"({"encoder_prompt": "ab", "decoder_prompt": [0, 51]})"));
  EXPECT_EQ(prepended.decoder, (Ids{2, 0, 51}));
  EXPECT_FALSE(prepended.default_prompt);
  const Result text = prepare(J(R"({"encoder_prompt": "ab", "decoder_prompt": {"prompt": "c"}})"));
  EXPECT_EQ(text.decoder,
            (Ids{2, 0, 3 + 'c', 2}));  // tokenised like the encoder's, behind the start
  EXPECT_EQ(text.inputs.prompt(), "c");
  EXPECT_EQ(prepare(J(R"({"encoder_prompt": "ab", "decoder_prompt": [2]})")).decoder, (Ids{2}));
}

TEST(Prompt, BosAndStartOfTheDefaultPrompt) {
  EXPECT_EQ(prepare("a", {{"forced_bos_token_id", 7}}).decoder, (Ids{2, 7}));
  EXPECT_EQ(prepare("a", {{"decoder_start_token_id", 9}}).decoder, (Ids{9, 0}));
  EXPECT_EQ(prepare(J(R"({"encoder_prompt": "a", "decoder_prompt": [9]})"),
                    {{"decoder_start_token_id", 9}})
                .decoder,
            (Ids{9}));
  const Result none = prepare("a", {{"bos_token_id", nullptr}});
  EXPECT_EQ(none.decoder, (Ids{2}));
  EXPECT_FALSE(none.default_prompt);
}

TEST(Prompt, FamiliesHaveTheirOwnRule) {
  const Result plain = prepare("a", json::object(), config_of("some_family"));
  EXPECT_EQ(plain.decoder, (Ids{2}));
  EXPECT_FALSE(plain.default_prompt);
  ModelFamily own;
  own.model_type = "own_family";
  own.decoder_prompt = [](const std::optional<Ids>& given, const DecoderPromptContext& context) {
    return DecoderPrompt{given ? *given : Ids{context.decoder_start, 5, 6}, false};
  };
  register_family(own);
  EXPECT_EQ(prepare("a", json::object(), config_of("own_family")).decoder, (Ids{2, 5, 6}));
  EXPECT_EQ(prepare(J(R"({"encoder_prompt": "a", "decoder_prompt": [8]})"), json::object(),
                    config_of("own_family"))
                .decoder,
            (Ids{8}));
}

TEST(Prompt, TruncationKeepsTheEndTokens) {
  const json text = "abcdef";
  const auto cut = [&](int keep) {
    return prepare(text, {{"truncate_prompt_tokens", keep}}).encoder;
  };
  EXPECT_EQ(cut(100), encoded("abcdef"));
  EXPECT_EQ(cut(8), encoded("abcdef"));
  EXPECT_EQ(cut(7), encoded("abcde"));
  EXPECT_EQ(cut(3), encoded("a"));
  EXPECT_EQ(cut(2), (Ids{0, 2}));
  EXPECT_EQ(cut(1), (Ids{2}));
  EXPECT_EQ(cut(-1), encoded("abcdef"));
  // Ids without an end token are just cut.
  EXPECT_EQ(prepare(J("[5, 6, 7, 8]"), {{"truncate_prompt_tokens", 2}}).encoder, (Ids{5, 6}));
  EXPECT_EQ(prepare(J("[5, 6, 7, 2]"), {{"truncate_prompt_tokens", 2}}).encoder, (Ids{5, 2}));
  // To what the model takes.
  EXPECT_EQ(prepare(std::string(50, 'x'), {{"truncate_prompt_tokens", -1}}).encoder,
            encoded(std::string(kPositions - 2, 'x')));
}

TEST(Prompt, WithoutSpecialTokens) {
  const json params = {{"add_special_tokens", false}};
  const json pair = {{"encoder_prompt", "ab"}, {"decoder_prompt", "c"}};
  const Result r = prepare(pair, params);
  EXPECT_EQ(r.encoder, FakeTokenizer().encode("ab", false));
  EXPECT_EQ(r.decoder, (Ids{2, FakeTokenizer().encode("c", false)[0]}));
  EXPECT_EQ(prepare(pair, {{"add_special_tokens", nullptr}}).encoder, encoded("ab"));
  // Nothing is at the end that would have to stay.
  EXPECT_EQ(prepare("abcd", {{"add_special_tokens", false}, {"truncate_prompt_tokens", 2}}).encoder,
            FakeTokenizer().encode("ab", false));
  const json empty = {{"add_special_tokens", false}, {"allow_empty_prompt", true}};
  expect_error("prompt", "", "has no tokens", ErrorKind::kInvalidRequest, empty);
  // A target loses no end token that the tokenizer did not put there.
  const json target = {
      {"encoder_prompt", "a"}, {"target", {{"prompt_token_ids", {7, 2}}}}, {"append_eos", false}};
  EXPECT_EQ(prepare(target, params).decoder, (Ids{2, 7}));
}

TEST(Prompt, TooLongForTheModel) {
  EXPECT_EQ(prepare(std::string(kPositions - 2, 'x')).encoder.size(),
            static_cast<size_t>(kPositions));
  expect_error(
      "prompt", std::string(kPositions - 1, 'x'),
      "This model's maximum context length is 16 tokens. However, you requested 17 tokens.",
      ErrorKind::kResource);
  expect_error("prompt", std::string(50, 'x'), "20 tokens", ErrorKind::kResource,
               {{"truncate_prompt_tokens", 20}});
  ModelConfig unlimited = config_of();
  unlimited.max_position_embeddings = 0;
  EXPECT_EQ(prepare(std::string(500, 'x'), json::object(), unlimited).encoder.size(), 502u);
}

TEST(Prompt, BadFormats) {
  for (const char* prompt : {"1", "true", "null", "1.5"})
    expect_error("prompt", J(prompt), "must be");
  expect_error("prompt", J("{}"), "neither");
  expect_error("prompt", J("[]"), "empty");
  expect_error("prompt.prompt_token_ids", J(R"({"prompt_token_ids": []})"), "empty");
  expect_error("prompt.prompt_token_ids", J(R"({"prompt_token_ids": "x"})"));
  expect_error("prompt.prompt_token_ids", J(R"({"prompt_token_ids": [1, true]})"), "position 1");
  expect_error("prompt.prompt_token_ids", J(R"({"prompt_token_ids": [1, 2.5]})"), "position 1");
  expect_error("prompt.prompt_token_ids", J(R"({"prompt_token_ids": null})"));
  expect_error("prompt.prompt", J(R"({"prompt": 1})"));
  expect_error("prompt", J(R"({"prompt": "a", "prompt_token_ids": [1]})"), "both");
  expect_error("prompt", J(R"({"promt": "a"})"), "did you mean prompt?");
  expect_error("prompt", J(R"({"encoder_prompt": "a", "prompt": "b"})"), "unknown key");
  expect_error("prompt.encoder_prompt", J(R"({"decoder_prompt": "a"})"), "missing");
  expect_error("prompt.encoder_prompt", J(R"({"encoder_prompt": null})"));
  expect_error("prompt.encoder_prompt", J(R"({"encoder_prompt": {"encoder_prompt": "a"}})"),
               "unknown key");
  expect_error("prompt.decoder_prompt.prompt",
               J(R"({"encoder_prompt": "a", "decoder_prompt": {"prompt": []}})"));
  expect_error("prompt.decoder_prompt", J(R"({"encoder_prompt": "a", "decoder_prompt": []})"),
               "empty");
}

TEST(Prompt, DeepNestingIsJustAWrongType) {
  std::string text(200000, '[');
  text += std::string(text.size(), ']');
  for (const std::string& prompt :
       {text, "{\"prompt\": " + text + "}", "{\"prompt_token_ids\": " + text + "}",
        "{\"encoder_prompt\": \"a\", \"decoder_prompt\": " + text + "}",
        "{\"prompt\": \"a\", \"multi_modal_data\": " + text + "}"})
    EXPECT_THROW(read_prompt(json_from<json>(prompt)), InputError) << prompt.substr(0, 40);
}

TEST(Prompt, IdsOutsideTheVocabulary) {
  expect_error("prompt", J("[1, 2, 200]"),
               "token id 200 at position 2 is outside the vocabulary of 200");
  expect_error("prompt", J("[1, -1]"), "position 1");
  expect_error("prompt", J("[18446744073709551615]"), "position 0");
  expect_error("prompt.decoder_prompt.prompt_token_ids",
               J(R"({"encoder_prompt": "a", "decoder_prompt": {"prompt_token_ids": [2, 999999]}})"),
               "position 1");
  EXPECT_NO_THROW(prepare(J("[199]")));
}

TEST(Prompt, MultiModalDataIsOfModelsThatReadIt) {
  expect_error("prompt.multi_modal_data.audio",
               J(R"({"prompt": "", "multi_modal_data": {"audio": "x.wav"}})"), "not built",
               ErrorKind::kNotSupported);
  expect_error("prompt.encoder_prompt.multi_modal_data.a",
               J(R"({"encoder_prompt": {"prompt": "", "multi_modal_data": {"a": 1}}})"),
               "not built", ErrorKind::kNotSupported);
  const std::string image = "prompt.multi_modal_data.image";
  const auto with = [](const std::string& source) {
    return json{{"prompt", ""}, {"multi_modal_data", {{"image", source}}}};
  };
  expect_error(image, with("a.png"), "paths are not read", ErrorKind::kNotSupported);
  expect_error(image, with("https://a/b.png"), "not fetched", ErrorKind::kNotSupported);
  expect_error(image, with("file:///etc/passwd"), "data:image/");
  expect_error(image, with("data:image/png;base64,a===="), "base64");
  expect_error(image, with("data:image/png;base64,"), "empty");
  expect_error(image, with("data:text/plain;base64,aaaa"), "data:image/png");
  for (const char* url :
       {"data:image/png;base64,iVBO\r\n Rw0=\n", " data:image/png;base64,iVBORw0%3D",
        "DATA:Image/PNG;charset=utf-8;BASE64,iVBORw0", "data:image/png,%89PNG%0D",
        "data:application/octet-stream;base64,iVBORw0=", "data:;base64,iVBORw0="})
    EXPECT_EQ(read_prompt(with(url)).encoder().image(), "\x89PNG\r") << url;
  EXPECT_EQ(read_prompt(with("data:image/png;base64,-_-_")).encoder().image(),
            read_prompt(with("data:image/png;base64,%2B%2f+/")).encoder().image());
  expect_error(image, with("data:image/png;base64,iVBORw0%3"), "base64");
  expect_error(image, with("data:image/png"), "data:image/png");
  expect_error(image, with("data:image/png;base64,aaaa"), "reads no images");
  json both = with("data:image/png;base64,aaaa");
  both["prompt"] = "words";
  expect_error("prompt.prompt", both, "reads no images");
  EXPECT_EQ(read_prompt(both).encoder().text(), "words");
  EXPECT_EQ(read_prompt(both).encoder().picture(), "i\xa6\x9a");
  both["global_attention"] = J("[0]");
  expect_error("prompt.global_attention", both, "must be empty beside");
  json boxes = J(R"({"prompt_token_ids": [4, 5], "bbox": [[0, 0, 1, 1], [0.25, 0.5, 0.75, 1]]})");
  EXPECT_EQ(read_prompt(boxes).encoder().boxes(1).left(), 0.25f);
  expect_error("bbox", boxes, "knows no places");
  boxes["bbox"][1][0] = 1.5;
  EXPECT_THROW(check_prompt(read_prompt(boxes)), InputError);
  boxes["bbox"] = J("[[0, 0, 1, 1]]");
  EXPECT_THROW(check_prompt(read_prompt(boxes)), InputError);
  boxes["bbox"] = J("[[0, 0, 1], [0, 0, 1, 1]]");
  expect_error("prompt.bbox", boxes, "[left, top, right, bottom]");
  EXPECT_EQ(read_prompt(with("data:image/png;base64,iVBORw0=")).encoder().image(), "\x89PNG\r");
  const auto reads = [](const std::string& path, const std::string& field) {
    return path + " as " + field;
  };
  EXPECT_EQ(read_prompt(with("x.png"), reads).encoder().image(), "x.png as " + image);
}

TEST(Prompt, InvalidUtf8) {
  expect_error("prompt", std::string("ab\xff"), "2");
  expect_error("prompt.decoder_prompt",
               {{"encoder_prompt", "a"}, {"decoder_prompt", std::string("\xc3")}});
}

TEST(Prompt, WithoutATokenizerOrAStart) {
  ModelConfig config = config_of();
  const ParamsResolver resolver(config, kVocab);
  EXPECT_NO_THROW(preprocess(read_prompt(J("[5, 6]")), {}, nullptr, config, resolver));
  EXPECT_NO_THROW(preprocess(read_prompt(J("[5, 6]")),
                             read_options({{"truncate_prompt_tokens", 1}}), nullptr, config,
                             resolver));
  EXPECT_THROW(preprocess(read_prompt("text"), {}, nullptr, config, resolver), InputError);
  config.decoder_start_token_id = config.bos_token_id = -1;
  EXPECT_THROW(prepare("a", json::object(), config), InputError);
}

}  // namespace
}  // namespace tandem
