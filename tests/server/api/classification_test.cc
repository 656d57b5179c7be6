// /classify and /predict without sockets and without an engine.
#include <gtest/gtest.h>

#include "tests/support/network/fake_http.h"

namespace tandem::classification_test {
namespace {

using nlohmann::json;
using test::FakeServer;

void answer(FakeServer& s, size_t i, const std::vector<float>& logits, int tokens = 4) {
  proto::RequestChunk chunk;
  for (int k = 0; k < tokens; ++k) chunk.mutable_inputs()->add_encoder_prompt_token_ids(k);
  for (const char* name : {"no", "yes"}) chunk.mutable_inputs()->mutable_labels()->add_names(name);
  chunk.mutable_embedding()->mutable_values()->Add(logits.begin(), logits.end());
  chunk.set_finished(true);
  s.engine.callbacks.at(s.engine.requests.at(i).id)(chunk);
  for (const auto& exchange : s.exchanges) exchange->run_posted();
}

TEST(Classification, AnswersAsVllm) {
  for (const char* path : {"/classify", "/v1/classify"}) {
    FakeServer s;
    const auto e =
        s.ask("POST", path,
              R"({"model": "alias", "input": ["a", {"text": "b", "text_pair": "c"}, [7, 1]],
                             "user": "me", "truncate_prompt_tokens": 9, "priority": -2,
                             "timeout": 1.5})");
    ASSERT_EQ(s.engine.requests.size(), 3u) << (e->head ? e->head->body : "no answer");
    const auto& request = s.engine.requests[1];
    EXPECT_EQ(request.prompt.pooling().kind(), proto::Pooling::LABELS);
    EXPECT_EQ(request.prompt.encoder().text(), "b");
    EXPECT_EQ(request.prompt.encoder().second().text(), "c");
    EXPECT_EQ(test::shown(request.options), test::options({{"truncate_prompt_tokens", 9}}));
    EXPECT_EQ(request.priority, -2);
    EXPECT_EQ(request.timeout, 1.5);
    EXPECT_FALSE(s.engine.requests[0].prompt.encoder().has_second());
    EXPECT_EQ(s.engine.requests[2].prompt.encoder().token_ids().ids_size(), 2);
    answer(s, 2, {0, 0});
    answer(s, 1, {100, 0});
    EXPECT_FALSE(e->ended);
    answer(s, 0, {0, 0.5});
    const json body = e->json();
    EXPECT_EQ(body["object"], "list");
    EXPECT_EQ(body["model"], "alias");
    EXPECT_EQ(body["id"].get<std::string>().rfind("classify-", 0), 0u);
    EXPECT_EQ(body["usage"],
              json({{"prompt_tokens", 12}, {"total_tokens", 12}, {"completion_tokens", 0}}));
    ASSERT_EQ(body["data"].size(), 3u);
    EXPECT_EQ(body["data"][0]["label"], "yes");
    EXPECT_NEAR(body["data"][0]["probs"][1].get<double>(), 0.6224593, 1e-6);
    EXPECT_EQ(body["data"][1]["index"], 1);
    EXPECT_EQ(body["data"][1]["label"], "no");
    EXPECT_EQ(body["data"][1]["probs"], json({1.0, 3.720075976020836e-44}));
    EXPECT_EQ(body["data"][2]["num_classes"], 2);
    EXPECT_EQ(s.context.prompts_under_way, 0);
  }
}

TEST(Classification, LogitsAreToBeHad) {
  FakeServer s;
  const auto e = s.ask("POST", "/classify", R"({"input": "a", "use_activation": false})");
  answer(s, 0, {-3, 0.5});
  EXPECT_EQ(e->json()["data"][0]["probs"], json({-3.0, 0.5}));
}

TEST(Classification, BadInputsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "input"},
      {R"({"input": []})", "input"},
      {R"({"input": 3})", "input"},
      {R"({"input": ["a", 3]})", "input[1]"},
      {R"({"input": {"text_pair": "b"}})", "input"},
      {R"({"input": {"text": 1}})", "input.text"},
      {R"({"input": {"text": "a", "texts": "b"}})", "input.texts"},
      {R"({"input": "a", "use_activation": 2})", "use_activation"},
      {R"({"input": "a", "max_tokens": 2})", "max_tokens"},
      {R"({"input": "a", "model": "other"})", "model"}};
  for (const auto& [body, param] : cases) {
    FakeServer s;
    const auto e = s.ask("POST", "/classify", body);
    EXPECT_GE(e->status(), 400) << body;
    EXPECT_EQ(e->error_param(), param) << body;
    EXPECT_TRUE(s.engine.requests.empty());
  }
}

TEST(Classification, ErrorsOfTheEngineNameTheInput) {
  FakeServer s;
  const auto e = s.ask("POST", "/classify", R"({"input": ["a", "b"]})");
  proto::RequestChunk chunk;
  chunk.mutable_error()->set_type("invalid_request_error");
  chunk.mutable_error()->set_message("prompt: is too long");
  chunk.mutable_error()->set_param("prompt");
  s.engine.callbacks.at(s.engine.requests.at(1).id)(chunk);
  e->run_posted();
  EXPECT_EQ(e->error_param(), "input[1]");
}

TEST(Prediction, AnswersAsTextEmbeddingsInference) {
  FakeServer s;
  const auto e = s.ask("POST", "/predict", R"({"inputs": "a", "truncate": true})");
  ASSERT_EQ(s.engine.requests.size(), 1u);
  EXPECT_EQ(s.engine.requests[0].options.truncate_prompt_tokens(), -1);
  answer(s, 0, {1, 2});
  const json body = e->json();
  ASSERT_EQ(body.size(), 2u);
  EXPECT_EQ(body[0]["label"], "yes");
  EXPECT_NEAR(body[0]["score"].get<double>(), 0.7310586, 1e-6);
  EXPECT_EQ(body[1]["label"], "no");
}

TEST(Prediction, PairsAndLists) {
  FakeServer s;
  s.ask("POST", "/predict", R"({"inputs": ["a", "b"]})");
  ASSERT_EQ(s.engine.requests.size(), 1u);
  EXPECT_EQ(s.engine.requests[0].prompt.encoder().second().text(), "b");
  const auto e =
      s.ask("POST", "/predict", R"({"inputs": [["c"], ["d", "e"]], "raw_scores": true})");
  ASSERT_EQ(s.engine.requests.size(), 3u);
  EXPECT_FALSE(s.engine.requests[1].prompt.encoder().has_second());
  EXPECT_EQ(s.engine.requests[2].prompt.encoder().second().text(), "e");
  answer(s, 1, {3, 1});
  answer(s, 2, {1, 2});
  EXPECT_EQ(e->json(),
            json({{{{"score", 3.0}, {"label", "no"}}, {{"score", 1.0}, {"label", "yes"}}},
                  {{{"score", 2.0}, {"label", "yes"}}, {{"score", 1.0}, {"label", "no"}}}}));
}

TEST(Prediction, BadInputsAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"input": "a"})", "inputs"},
      {R"({"inputs": ["a", "b", "c"]})", "inputs"},
      {R"({"inputs": [["a"], "b"]})", "inputs[1]"},
      {R"({"inputs": [["a"], []]})", "inputs[1]"},
      {R"({"inputs": [["a"], [1]]})", "inputs[1]"},
      {R"({"inputs": "a", "truncation_direction": "Left"})", "truncation_direction"}};
  for (const auto& [body, param] : cases) {
    FakeServer s;
    const auto e = s.ask("POST", "/predict", body);
    EXPECT_GE(e->status(), 400) << body;
    EXPECT_EQ(e->error_param(), param) << body;
  }
}

}  // namespace
}  // namespace tandem::classification_test
