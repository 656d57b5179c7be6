// Fields of OpenAI's answers, to the letter.
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/support/network/fake_http.h"

namespace tandem::openai_answers_test {
namespace {

using nlohmann::json;
using test::FakeServer;

constexpr const char* kChat = R"({"messages": [{"role": "user", "content": "a"}])";
constexpr const char* kCompletion = R"({"prompt": "a")";

std::string with(const char* body, const std::string& fields) {
  return body + (", " + fields) + "}";
}

// Token 5 with logprob -0.5, and the most likely others.
proto::RequestChunk token_among(const std::vector<std::pair<int, float>>& top) {
  proto::RequestChunk chunk;
  chunk.mutable_inputs()->add_encoder_prompt_token_ids(1);
  proto::CompletionChunk& news = *chunk.add_outputs();
  news.set_text("t5");
  news.add_token_ids(5);
  news.set_finish_reason("stop");
  proto::TokenLogprobs& list = *news.add_logprobs();
  const auto add = [&](int id, float logprob) {
    proto::TokenLogprob& one = *list.add_top();
    one.set_token_id(id);
    one.set_logprob(logprob);
    one.set_decoded_token("t" + std::to_string(id));
  };
  add(5, -0.5f);
  for (const auto& [id, logprob] : top) add(id, logprob);
  chunk.set_finished(true);
  return chunk;
}

json answer(FakeServer& s, const char* path, const std::string& body,
            const proto::RequestChunk& chunk) {
  const auto e = s.ask("POST", path, body);
  EXPECT_FALSE(e->head) << e->head->body;
  s.engine.callbacks.at(s.engine.requests.back().id)(chunk);
  e->run_posted();
  return e->json()["choices"][0];
}

TEST(OpenAiAnswers, LogprobsHaveTheChosenToken) {
  FakeServer s;
  const auto top = [&](const std::string& fields, const proto::RequestChunk& chunk) {
    return answer(s, "/v1/completions", with(kCompletion, fields),
                  chunk)["logprobs"]["top_logprobs"][0];
  };
  EXPECT_EQ(top(R"("logprobs": 0)", token_among({})), json({{"t5", -0.5}}));
  EXPECT_EQ(top(R"("logprobs": 2)", token_among({{7, -0.25f}, {8, -0.375f}})),
            json({{"t7", -0.25}, {"t8", -0.375}, {"t5", -0.5}}));
  EXPECT_EQ(top(R"("logprobs": 2)", token_among({{7, -0.25f}, {5, -0.5f}})),
            json({{"t7", -0.25}, {"t5", -0.5}}));
  const json none =
      answer(s, "/v1/chat/completions", with(kChat, R"("logprobs": true, "top_logprobs": 0)"),
             token_among({}))["logprobs"];
  EXPECT_EQ(none["content"][0]["logprob"], -0.5);
  EXPECT_EQ(none["content"][0]["top_logprobs"], json::array());
  EXPECT_TRUE(none["refusal"].is_null());
  const json two =
      answer(s, "/v1/chat/completions", with(kChat, R"("logprobs": true, "top_logprobs": 2)"),
             token_among({{7, -0.25f}, {8, -0.375f}}))["logprobs"];
  EXPECT_EQ(two["content"][0]["token"], "t5");
  EXPECT_EQ(two["content"][0]["top_logprobs"].size(), 2u);
  EXPECT_TRUE(answer(s, "/v1/completions", with(kCompletion, R"("logprobs": null)"),
                     token_among({}))["logprobs"]
                  .is_null());
}

TEST(OpenAiAnswers, MessagesHaveAllTheirFields) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/chat/completions", with(kChat, R"("model": "alias")"));
  s.engine.say(0, "x", {5}, "stop");
  e->run_posted();
  const json body = e->json();
  EXPECT_EQ(body["choices"][0]["message"], json({{"role", "assistant"},
                                                 {"content", "x"},
                                                 {"refusal", nullptr},
                                                 {"annotations", json::array()}}));
  EXPECT_EQ(body["model"], "alias");
  EXPECT_EQ(body["service_tier"], "default");
  EXPECT_TRUE(body["system_fingerprint"].is_string());
}

TEST(OpenAiAnswers, UsageOfStreams) {
  for (const bool asked : {true, false})
    for (const auto& [path, start] :
         {std::pair("/v1/completions", kCompletion), std::pair("/v1/chat/completions", kChat)}) {
      FakeServer s;
      const auto e =
          s.ask("POST", path,
                with(start, std::string(R"("stream": true, "stream_options": {"include_usage": )") +
                                (asked ? "true" : "false") + "}"));
      s.engine.say(0, "x", {5});
      s.engine.say(0, "y", {6}, "stop");
      e->run_posted();
      auto events = e->events();
      EXPECT_EQ(events.back(), "[DONE]");
      events.pop_back();
      if (asked) {
        const json last = json_from<json>(events.back());
        EXPECT_EQ(last["choices"], json::array());
        EXPECT_EQ(last["usage"]["completion_tokens"], 2);
        events.pop_back();
      }
      for (const std::string& event : events) {
        const json chunk = json_from<json>(event);
        EXPECT_EQ(chunk["choices"].size(), 1u);
        EXPECT_EQ(chunk.contains("usage"), asked);
        if (asked) {
          EXPECT_TRUE(chunk["usage"].is_null());
        }
      }
    }
  FakeServer s;
  for (const char* stream : {"", R"("stream": false, )", R"("stream": null, )"}) {
    const auto e = s.ask(
        "POST", "/v1/completions",
        with(kCompletion, std::string(stream) + R"("stream_options": {"include_usage": true})"));
    EXPECT_EQ(e->error_param(), "stream_options");
  }
}

// vLLM's, which says something about the usage that include_usage asks for.
TEST(OpenAiAnswers, UsageInEveryChunk) {
  for (const bool asked : {true, false}) {
    FakeServer s;
    const auto e = s.ask(
        "POST", "/v1/completions",
        with(kCompletion, std::string(R"("stream": true, "stream_options": {"include_usage": )") +
                              (asked ? "true" : "false") + R"(, "continuous_usage_stats": true})"));
    s.engine.say(0, "x", {5}, "stop");
    e->run_posted();
    EXPECT_EQ(json_from<json>(e->events()[0]).contains("usage"), asked);
    EXPECT_EQ(e->events().size(), asked ? 3u : 2u);
  }
}

// The first event of a chat has the role, and no token.
TEST(OpenAiAnswers, UsageOfAChatGrowsFromNothing) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/chat/completions",
                       R"({"messages": [{"role": "user", "content": "a"}], "stream": true,
                           "stream_options": {"include_usage": true,
                                              "continuous_usage_stats": true}})");
  s.engine.say(0, "x", {5}, "stop");
  e->run_posted();
  ASSERT_GE(e->events().size(), 2u);
  for (const size_t i : {0, 1})
    EXPECT_EQ(json_from<json>(e->events()[i])["usage"]["completion_tokens"], i);
}

TEST(OpenAiAnswers, TokenIdsOfThePrompt) {
  const json ids = {0, 1, 2, 3, 4, 5, 6};  // that the engine says
  FakeServer s;
  auto e = s.ask("POST", "/v1/completions", with(kCompletion, R"("return_token_ids": true)"));
  s.engine.say(0, "x", {5}, "stop");
  e->run_posted();
  EXPECT_EQ(e->json()["choices"][0]["prompt_token_ids"], ids);
  EXPECT_EQ(e->json()["choices"][0]["token_ids"], json({5}));
  e = s.ask("POST", "/v1/chat/completions", with(kChat, R"("return_token_ids": true)"));
  s.engine.say(1, "x", {5}, "stop");
  e->run_posted();
  EXPECT_EQ(e->json()["prompt_token_ids"], ids);
  EXPECT_EQ(e->json()["choices"][0]["token_ids"], json({5}));
  e = s.ask("POST", "/v1/completions",
            with(kCompletion, R"("return_token_ids": true, "stream": true)"));
  s.engine.say(2, "x", {5});
  s.engine.say(2, "y", {6}, "stop");
  e->run_posted();
  EXPECT_EQ(json_from<json>(e->events()[0])["choices"][0]["prompt_token_ids"], ids);
  EXPECT_FALSE(json_from<json>(e->events()[1])["choices"][0].contains("prompt_token_ids"));
  e = s.ask("POST", "/v1/chat/completions",
            with(kChat, R"("return_token_ids": true, "stream": true)"));
  s.engine.say(3, "x", {5}, "stop");
  e->run_posted();
  EXPECT_EQ(json_from<json>(e->events()[0])["prompt_token_ids"], ids);
  EXPECT_FALSE(json_from<json>(e->events()[1]).contains("prompt_token_ids"));
  e = s.ask("POST", "/v1/completions", with(kCompletion, R"("n": 1)"));
  s.engine.say(4, "x", {5}, "stop");
  e->run_posted();
  EXPECT_FALSE(e->json()["choices"][0].contains("prompt_token_ids"));
}

TEST(OpenAiAnswers, TextsThatAreTooLong) {
  for (const bool stream : {false, true}) {
    FakeServer s;
    const auto e = s.ask("POST", "/v1/completions",
                         with(kCompletion, stream ? R"("stream": true)" : R"("n": 1)"));
    if (stream) s.engine.say(0, "x", {5});
    proto::RequestChunk chunk;
    chunk.mutable_error()->set_type("resource_error");
    chunk.mutable_error()->set_code("context_length_exceeded");
    chunk.mutable_error()->set_message("prompt: This model's maximum context length is 5 tokens.");
    chunk.mutable_error()->set_param("prompt");
    chunk.set_finished(true);
    s.engine.callbacks.at(s.engine.requests[0].id)(chunk);
    e->run_posted();
    const json error = stream ? json_from<json>(e->events()[1])["error"] : e->json()["error"];
    EXPECT_EQ(e->status(), stream ? 200 : 400);
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_EQ(error["param"], "prompt");
  }
}

TEST(OpenAiAnswers, AnEmptyModelIsNone) {
  FakeServer s;
  s.ask("POST", "/v1/completions", with(kCompletion, R"("model": "")"));
  EXPECT_EQ(s.engine.requests.size(), 1u);
}

TEST(OpenAiAnswers, TokenizedMessages) {
  FakeServer s;
  s.config.prompt_template = "{system}{user}";
  const json prompt =
      s.ask("POST", "/tokenize", R"({"prompt": "ab", "return_token_strs": true})")->json();
  json chat =
      s.ask("POST", "/tokenize",
            R"({"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}],
                        "return_token_strs": true, "add_generation_prompt": true})")
          ->json();
  EXPECT_EQ(chat, prompt);
  EXPECT_TRUE(s.ask("POST", "/tokenize", R"({"prompt": "ab"})")->json()["token_strs"].is_null());
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "prompt"},
      {R"({"messages": [], "prompt": "a"})", "messages"},
      {R"({"messages": []})", "messages"},
      {R"({"messages": [{"role": "user", "content": "a"}], "tools": [{}]})", "tools"},
      {R"({"messages": [{"role": "user", "content": "a"}], "continue_final_message": true})",
       "continue_final_message"}};
  for (const auto& [body, param] : cases)
    EXPECT_EQ(s.ask("POST", "/tokenize", body)->error_param(), param) << body;
}

}  // namespace
}  // namespace tandem::openai_answers_test
