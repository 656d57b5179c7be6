// Small bodies that would become large requests.
#include "server/api/generation/generation_request.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/network/fake_http.h"

namespace tandem {
namespace {

using nlohmann::json;

class Amplification : public ::testing::Test {
 protected:
  Amplification() { server.config.max_body_bytes = 10000; }
  // The field that the server finds at fault; empty if the engine was asked.
  std::string refused(const char* path, const json& body) {
    const auto exchange = server.ask("POST", path, body.dump());
    return exchange->head ? exchange->error_param() : "";
  }
  const json prompts = json(std::vector<std::string>(100, "a"));
  test::FakeServer server;
};

TEST_F(Amplification, Sequences) {
  EXPECT_EQ(refused("/v1/completions", {{"prompt", prompts}, {"n", 100}}), "");
  EXPECT_EQ(refused("/v1/completions", {{"prompt", prompts}, {"n", 101}}), "n");
  EXPECT_EQ(refused("/v1/completions", {{"prompt", prompts}, {"num_return_sequences", 10000}}),
            "n");
}

TEST_F(Amplification, WhatPromptsShare) {
  const std::string small(300, 'x'), large(500, 'x');
  EXPECT_EQ(refused("/v1/completions", {{"prompt", prompts}, {"decoder_prompt", small}}), "");
  EXPECT_EQ(refused("/v1/completions", {{"prompt", prompts}, {"decoder_prompt", large}}),
            "decoder_prompt");
  EXPECT_EQ(refused("/v1/completions", {{"prompt", "a"}, {"decoder_prompt", large}}), "");
  EXPECT_EQ(refused("/v1/completions", {{"prompt", prompts}, {"stop", small}}), "");
  EXPECT_EQ(refused("/v1/completions", {{"prompt", prompts}, {"stop", large}}), "prompt");
  EXPECT_EQ(refused("/v1/target_scores", {{"prompt", small}, {"target", prompts}}), "");
  EXPECT_EQ(refused("/v1/target_scores", {{"prompt", large}, {"target", prompts}}), "prompt");
  EXPECT_EQ(refused("/score", {{"text_1", large}, {"text_2", prompts}}), "") << "it goes once";
}

// Each pass over the text would put the user's into it once more.
TEST_F(Amplification, Templates) {
  server.config.prompt_template = "{system} {user} {user}";
  std::string system;
  for (int i = 0; i < 100; ++i) system += "{user}";
  server.ask("POST", "/v1/chat/completions",
             json({{"messages",
                    {{{"role", "system"}, {"content", system}},
                     {{"role", "user"}, {"content", "{system}"}}}}})
                 .dump());
  ASSERT_EQ(server.engine.requests.size(), 1u);
  EXPECT_EQ(server.engine.requests[0].prompt.encoder().text(), system + " {system} {system}");
}

}  // namespace
}  // namespace tandem
