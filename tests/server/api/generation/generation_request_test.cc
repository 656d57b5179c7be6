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

TEST(ChatMessages, ADeveloperAloneIsAnswered) {
  test::FakeServer server;
  const auto chat = [&](const char* role) {
    const json message = {{"role", role}, {"content", "a text"}};
    return server.ask("POST", "/v1/chat/completions",
                      json{{"messages", json::array({message})}}.dump());
  };
  chat("developer");
  chat("system");
  ASSERT_EQ(server.engine.requests.size(), 2u);
  for (const auto& request : server.engine.requests)
    EXPECT_EQ(request.prompt.encoder().text(), "a text");
  EXPECT_EQ(chat("assistant")->status(), 400);
}

// --- Images --------------------------------------------------------------------------------------

json part_of(const std::string& url) {
  return {{"type", "image_url"}, {"image_url", {{"url", url}, {"detail", "auto"}}}};
}

std::string chat(const json& content) {
  return json({{"messages", {{{"role", "user"}, {"content", content}}}}}).dump();
}

constexpr const char* kImage = "data:image/png;base64,iVBORw0=";

TEST(Images, OfAChatAreTheEncodersInput) {
  test::FakeServer server;
  const json blank = {{"type", "text"}, {"text", " \n"}};
  server.ask("POST", "/v1/chat/completions", chat({blank, part_of(kImage)}));
  server.ask("POST", "/v1/completions",
             json({{"prompt", {{"prompt", ""}, {"multi_modal_data", {{"image", kImage}}}}},
                   {"decoder_prompt", "begins"}})
                 .dump());
  ASSERT_EQ(server.engine.requests.size(), 2u);
  for (const auto& request : server.engine.requests)
    EXPECT_EQ(request.prompt.encoder().image(), "\x89PNG\r");
  EXPECT_EQ(server.engine.requests[1].prompt.decoder().text(), "begins");
}

// Whether the model reads both is the engine's to say.
TEST(Images, OfAChatMayHaveATextBesideThem) {
  test::FakeServer server;
  const json text = {{"type", "text"}, {"text", "what is it?"}};
  server.ask("POST", "/v1/chat/completions", chat({part_of(kImage), text}));
  ASSERT_EQ(server.engine.requests.size(), 1u);
  const proto::PromptPart& part = server.engine.requests[0].prompt.encoder();
  EXPECT_EQ(part.text(), "what is it?");
  EXPECT_EQ(part.picture(), "\x89PNG\r");
}

TEST(Images, WhatIsNoneIsRefusedByName) {
  test::FakeServer server;
  const auto refused = [&](const char* path, const std::string& body) {
    const auto exchange = server.ask("POST", path, body);
    return exchange->head ? std::to_string(exchange->head->status) + " " + exchange->error_param()
                          : "";
  };
  const std::string content = "400 messages[0].content", url = content + ".image_url.url";
  const char* const path = "/v1/chat/completions";
  for (const char* bad : {"https://example.org/a.png", "http://127.0.0.1/", "/etc/passwd",
                          "file:///etc/passwd", "data:image/png;base64,?", "data:text/html,x", ""})
    EXPECT_EQ(refused(path, chat(json::array({part_of(bad)}))), url) << bad;
  EXPECT_EQ(refused(path, chat(json::array({{{"type", "image_url"}}}))), url);
  EXPECT_EQ(refused(path, chat(json::array({{{"type", "image_url"}, {"image_url", kImage}}}))),
            url);
  EXPECT_EQ(refused(path, chat({part_of(kImage), part_of(kImage)})), content);
  EXPECT_EQ(refused(path, chat(json::array({{{"type", "input_audio"}}}))), content);
  EXPECT_EQ(refused(path, json({{"messages",
                                 {{{"role", "system"}, {"content", json::array({part_of(kImage)})}},
                                  {{"role", "user"}, {"content", "a"}}}}})
                              .dump()),
            content);
  for (const char* bad : {"/etc/passwd", "a.png", "https://example.org/a.png"})
    EXPECT_EQ(refused("/v1/completions",
                      json({{"prompt", {{"multi_modal_data", {{"image", bad}}}}}}).dump()),
              "400 prompt.multi_modal_data.image")
        << bad;
  EXPECT_EQ(server.engine.requests.size(), 0u);
}

}  // namespace
}  // namespace tandem
