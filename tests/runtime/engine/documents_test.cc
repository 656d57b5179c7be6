// Documents through the engine: parts are what they are alone, and a text that fits stays whole.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/engine/llm_engine.h"
#include "runtime/protocol/output_cursor.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem {
namespace {

using nlohmann::json;

class Documents : public ::testing::Test {
 protected:
  Documents() {
    engine_.stream_to([&](const proto::RequestChunk& chunk) {
      append_chunk(streamed_[chunk.request_id()], chunk);
    });
  }
  proto::RequestOutput run(const std::string& text, const json& params) {
    engine_.add_request("r", json(text), params);
    while (engine_.has_unfinished_requests()) {
      for (auto& output : engine_.step()) {
        EXPECT_EQ(streamed_.at("r").outputs(0).text(), output.outputs(0).text());
        engine_.check_integrity();
        streamed_.clear();
        return output;
      }
      engine_.check_integrity();
    }
    ADD_FAILURE() << "no output";
    return {};
  }
  std::string text_of(const std::string& text, json params = json::object()) {
    params["max_tokens"] = 12;
    return run(text, params).outputs(0).text();
  }

  LLMEngine engine_{testing::golden_config("bart-tiny")};
  std::map<std::string, proto::RequestOutput> streamed_;
};

// As an answer is joined to others.
std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \n"), end = text.find_last_not_of(" \n");
  return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

TEST_F(Documents, SentencesAreWhatTheyAreAlone) {
  const std::vector<std::string> sentences{"The first one is here.", "A second!", "Third line"};
  // (The dash is part of the line.)
  const std::string expected = "  " + trimmed(text_of(sentences[0])) + "  " +
                               trimmed(text_of(sentences[1])) + "\n\n" +
                               trimmed(text_of("- " + sentences[2])) + "\n";
  EXPECT_EQ(
      text_of("  The first one is here.  A second!\n\n- Third line\n", {{"split", "sentences"}}),
      expected);
  EXPECT_EQ(text_of("The first one is here.\n\nA second!", {{"split", "paragraphs"}}),
            trimmed(text_of(sentences[0])) + "\n\n" + trimmed(text_of(sentences[1])));
}

TEST_F(Documents, AutoLeavesATextThatFits) {
  const std::string text = "One sentence is here. And another one follows.";
  const auto whole = run(text, {{"max_tokens", 12}});
  const auto same = run(text, {{"max_tokens", 12}, {"split", "auto"}});
  EXPECT_EQ(whole.outputs(0).SerializeAsString(), same.outputs(0).SerializeAsString());
  EXPECT_EQ(whole.inputs().SerializeAsString(), same.inputs().SerializeAsString());
}

TEST_F(Documents, AutoCutsATextThatDoesNot) {
  std::string text, expected;
  for (int i = 0; i < 200; ++i) {
    const std::string sentence = "Sentence " + std::to_string(i % 7) + " stands here.";
    text += (i == 0 ? "" : i % 5 == 0 ? "\n" : " ") + sentence;
    expected += (i == 0 ? "" : i % 5 == 0 ? "\n" : " ") + trimmed(text_of(sentence));
  }
  EXPECT_THROW(engine_.add_request("x", json(text), json::object()), InputError);
  const auto output = run(text, {{"max_tokens", 12}, {"split", "auto"}});
  EXPECT_EQ(output.outputs(0).text(), expected);
  EXPECT_GT(output.inputs().encoder_prompt_token_ids_size(), 1000);
  const auto summary = run(text, {{"max_tokens", 12}, {"split", "auto"}, {"merge", "summary"}});
  EXPECT_LE(summary.outputs(0).token_ids_size(), 12 * 8);
  EXPECT_EQ(summary.warnings_size(), 1);
}

TEST_F(Documents, WhatBelongsToOneTextIsAConflict) {
  const auto error_of = [&](const json& prompt, const json& params) -> std::string {
    try {
      engine_.add_request("x", prompt, params);
    } catch (const InputError& error) {
      return error.param();
    }
    return "none";
  };
  EXPECT_EQ(error_of("A b.", {{"split", "words"}}), "split");
  EXPECT_EQ(error_of("A b.", {{"merge", "sum"}}), "merge");
  EXPECT_EQ(error_of("A b.", {{"split", "sentences"}, {"truncate_prompt_tokens", 5}}), "split");
  EXPECT_EQ(
      error_of({{"encoder_prompt", "A b."}, {"decoder_prompt", "x"}}, {{"split", "sentences"}}),
      "split");
  engine_.check_integrity();
}

}  // namespace
}  // namespace tandem
