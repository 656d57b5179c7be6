// /v1/embeddings without sockets and without an engine.
#include <gtest/gtest.h>

#include "tests/support/network/fake_http.h"

namespace tandem::embedding_test {
namespace {

using nlohmann::json;
using test::FakeServer;

void answer(FakeServer& s, size_t i, const std::vector<float>& values, int tokens = 4) {
  proto::RequestChunk chunk;
  for (int k = 0; k < tokens; ++k) chunk.mutable_inputs()->add_encoder_prompt_token_ids(k);
  chunk.mutable_embedding()->mutable_values()->Add(values.begin(), values.end());
  chunk.set_finished(true);
  s.engine.callbacks.at(s.engine.requests.at(i).id)(chunk);
}

TEST(Embeddings, OneForEachInput) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/embeddings",
                       R"({"model": "alias", "input": ["a", "b"], "user": "me", "dimensions": 3,
                           "pooling": "cls", "normalize": false, "truncate_prompt_tokens": 9,
                           "priority": -2, "timeout": 1.5})");
  ASSERT_EQ(s.engine.requests.size(), 2u);
  const auto& request = s.engine.requests[1];
  EXPECT_EQ(test::shown(request.prompt),
            test::prompt({{"encoder_prompt", "b"}, {"pooling", "cls"}, {"normalize", false}}));
  EXPECT_EQ(test::shown(request.options), test::options({{"truncate_prompt_tokens", 9}}));
  EXPECT_EQ(request.priority, -2);
  EXPECT_EQ(request.timeout, 1.5);
  answer(s, 1, {4, 5, 6});
  e->run_posted();
  EXPECT_FALSE(e->ended);
  answer(s, 0, {1, 2, 0.5});
  e->run_posted();
  const json expected = {
      {"object", "list"},
      {"data",
       {{{"object", "embedding"}, {"index", 0}, {"embedding", {1.0, 2.0, 0.5}}},
        {{"object", "embedding"}, {"index", 1}, {"embedding", {4.0, 5.0, 6.0}}}}},
      {"model", "alias"},
      {"usage", {{"prompt_tokens", 8}, {"total_tokens", 8}}}};
  EXPECT_EQ(e->json(), expected);
  EXPECT_EQ(s.context.prompts_under_way, 0);
  const std::string metrics = s.context.metrics.text({}, 0);
  EXPECT_NE(
      metrics.find("tandem:request_success_total{model_name=\"model\",finished_reason=\"stop\"} 2"),
      std::string::npos);
  EXPECT_NE(metrics.find("tandem:prompt_tokens_total{model_name=\"model\"} 8"), std::string::npos);
}

TEST(Embeddings, FormsOfInput) {
  const std::pair<const char*, std::vector<json>> cases[] = {
      {R"("text")", {"text"}},
      {R"("")", {""}},
      {"[1, 2]", {json({1, 2})}},
      {R"(["a"])", {"a"}},
      {"[[1, 2], [3]]", {json({1, 2}), json::array({3})}},
      {R"(["a", [3]])", {"a", json::array({3})}}};
  for (const auto& [input, prompts] : cases) {
    FakeServer s;
    s.ask("POST", "/v1/embeddings", std::string(R"({"input": )") + input + "}");
    ASSERT_EQ(s.engine.requests.size(), prompts.size()) << input;
    for (size_t i = 0; i < prompts.size(); ++i)
      EXPECT_EQ(
          test::shown(s.engine.requests[i].prompt),
          test::prompt({{"encoder_prompt", prompts[i]}, {"pooling", "mean"}, {"normalize", true}}));
  }
}

TEST(Embeddings, Base64IsLittleEndianFloats) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/embeddings", R"({"input": "a", "encoding_format": "base64"})");
  answer(s, 0, {1, -2, 0.5});  // 0x3f800000, 0xc0000000, 0x3f000000
  e->run_posted();
  EXPECT_EQ(e->json()["data"][0]["embedding"], "AACAPwAAAMAAAAA/");
}

TEST(Embeddings, BadBodies) {
  FakeServer s;
  s.config.max_prompts = 3;
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "input"},
      {R"({"input": null})", "input"},
      {R"({"input": 5})", "input"},
      {R"({"input": []})", "input"},
      {R"({"input": {"prompt": "a"}})", "input"},
      {R"({"input": ["a", 5]})", "input[1]"},
      {R"({"input": [[]]})", "input[0]"},
      {R"({"input": [[1], [1.5]]})", "input[1]"},
      {R"({"input": ["a", "b", "c", "d"]})", "input"},
      {R"({"input": "a", "encoding_format": "int8"})", "encoding_format"},
      {R"({"input": "a", "encoding_format": 1})", "encoding_format"},
      {R"({"input": "a", "dimensions": 2})", "dimensions"},
      {R"({"input": "a", "dimensions": 0})", "dimensions"},
      {R"({"input": "a", "normalize": "yes"})", "normalize"},
      {R"({"input": "a", "timeout": 0})", "timeout"},
      {R"({"input": "a", "priority": 0.5})", "priority"},
      {R"({"input": "a", "max_tokens": 1})", "max_tokens"}};
  for (const auto& [body, param] : cases) {
    const auto e = s.ask("POST", "/v1/embeddings", body);
    EXPECT_EQ(e->status(), 400) << body;
    EXPECT_EQ(e->error_param(), param) << body;
  }
  EXPECT_EQ(s.ask("POST", "/v1/embeddings", R"({"model": "x", "input": "a"})")->status(), 404);
  EXPECT_TRUE(s.engine.requests.empty());
}

// The engine's names become the client's, and the first error cancels the others.
TEST(Embeddings, ErrorsOfTheEngine) {
  FakeServer s;
  const auto fail = [&](const std::string& body, size_t which, const std::string& param) {
    const size_t first = s.engine.requests.size();
    const auto e = s.ask("POST", "/v1/embeddings", body);
    proto::RequestChunk chunk;
    chunk.mutable_error()->set_type("resource_error");
    chunk.mutable_error()->set_message(param + ": too long");
    chunk.mutable_error()->set_param(param);
    chunk.set_finished(true);
    s.engine.callbacks.at(s.engine.requests.at(first + which).id)(chunk);
    e->run_posted();
    EXPECT_EQ(e->status(), 400);
    EXPECT_EQ(s.context.prompts_under_way, 0);
    EXPECT_EQ(e->json()["error"]["message"], e->error_param() + ": too long");
    return e->error_param();
  };
  EXPECT_EQ(fail(R"({"input": "a"})", 0, "prompt.encoder_prompt"), "input");
  EXPECT_EQ(fail(R"({"input": ["a", [4], "b"]})", 1, "prompt.encoder_prompt"), "input[1]");
  EXPECT_EQ(s.engine.cancelled.size(), 2u);
  EXPECT_EQ(fail(R"({"input": "a"})", 0, "pooling"), "pooling");
}

TEST(Embeddings, BoundsAndClientsThatGo) {
  FakeServer s;
  s.config.max_requests = 2;
  const auto waiting = s.ask("POST", "/v1/embeddings", R"({"input": "a"})");
  const auto refused = s.ask("POST", "/v1/embeddings", R"({"input": ["a", "b"]})");
  EXPECT_EQ(refused->status(), 429);
  EXPECT_NE(refused->header("retry-after"), nullptr);
  waiting->gone();
  waiting->run_posted();
  EXPECT_EQ(s.engine.cancelled.size(), 1u);
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

}  // namespace
}  // namespace tandem::embedding_test
