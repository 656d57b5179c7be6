// /score, vLLM's, without sockets and without an engine.
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/support/network/fake_http.h"

namespace tandem::score_test {
namespace {

using nlohmann::json;
using test::FakeServer;

void answer(FakeServer& s, size_t i, const std::vector<float>& values, int tokens) {
  proto::RequestChunk chunk;
  for (int k = 0; k < tokens; ++k) chunk.mutable_inputs()->add_encoder_prompt_token_ids(k);
  chunk.mutable_embedding()->mutable_values()->Add(values.begin(), values.end());
  chunk.set_finished(true);
  s.engine.callbacks.at(s.engine.requests.at(i).id)(chunk);
}

TEST(Scores, OneTextForAll) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/score",
                       R"({"model": "alias", "text_1": "a", "text_2": ["b", "c"], "user": "me",
                           "pooling": "cls", "truncate_prompt_tokens": 9, "priority": -2,
                           "timeout": 1.5, "use_activation": true, "add_special_tokens": false})");
  ASSERT_EQ(s.engine.requests.size(), 3u) << "each text once";
  const auto& request = s.engine.requests[2];
  EXPECT_EQ(test::shown(request.prompt),
            test::prompt({{"encoder_prompt", "c"}, {"pooling", "cls"}, {"normalize", false}}));
  EXPECT_EQ(test::shown(request.options),
            test::options({{"truncate_prompt_tokens", 9}, {"add_special_tokens", false}}));
  EXPECT_EQ(request.priority, -2);
  EXPECT_EQ(request.timeout, 1.5);
  answer(s, 2, {-3, -4}, 3);
  answer(s, 0, {6, 8}, 1);
  e->run_posted();
  EXPECT_FALSE(e->head);
  answer(s, 1, {4, -3}, 2);
  e->run_posted();
  const json body = e->json();
  EXPECT_EQ(body["object"], "list");
  EXPECT_EQ(body["model"], "alias");
  EXPECT_TRUE(body.contains("id") && body.contains("created"));
  EXPECT_EQ(body["usage"], json({{"prompt_tokens", 6}, {"total_tokens", 6}}));
  ASSERT_EQ(body["data"].size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(body["data"][i]["index"], i);
    EXPECT_EQ(body["data"][i]["object"], "score");
    EXPECT_EQ(body["data"][i].size(), 3u);
  }
  EXPECT_DOUBLE_EQ(body["data"][0]["score"].get<double>(), 0);
  EXPECT_DOUBLE_EQ(body["data"][1]["score"].get<double>(), -1);
  EXPECT_EQ(s.context.prompts_under_way, 0);
  EXPECT_EQ(s.context.metrics.totals().prompt_tokens, 6);
}

TEST(Scores, ARankingOfDocuments) {
  for (const char* path : {"/v1/rerank", "/v2/rerank", "/rerank"}) {
    FakeServer s;
    const auto e = s.ask("POST", path,
                         R"({"query": "a", "documents": ["b", {"text": "c"}, "d"], "top_n": 2})");
    ASSERT_EQ(s.engine.requests.size(), 4u);
    EXPECT_EQ(test::shown(s.engine.requests[2].prompt),
              test::prompt({{"encoder_prompt", "c"}, {"pooling", "mean"}, {"normalize", false}}));
    answer(s, 0, {1, 0}, 1);
    answer(s, 1, {0, 1}, 1);
    answer(s, 2, {1, 0}, 1);
    answer(s, 3, {1, 1}, 1);
    e->run_posted();
    const json body = e->json();
    ASSERT_EQ(body["results"].size(), 2u);
    EXPECT_EQ(body["results"][0]["index"], 1);
    EXPECT_EQ(body["results"][0]["document"]["text"], "c");
    EXPECT_DOUBLE_EQ(body["results"][0]["relevance_score"].get<double>(), 1);
    EXPECT_EQ(body["results"][1]["index"], 2);
    EXPECT_EQ(body["usage"]["total_tokens"], 4);
    EXPECT_EQ(body["object"], "list");
    EXPECT_EQ(body["meta"]["billed_units"]["search_units"], 1) << "Cohere's";
  }
  FakeServer s;
  EXPECT_EQ(s.ask("POST", "/v1/rerank", R"({"documents": ["b"]})")->error_param(), "query");
  EXPECT_EQ(s.ask("POST", "/v1/rerank", R"({"query": "a"})")->error_param(), "documents");
  EXPECT_EQ(s.ask("POST", "/v1/rerank", R"({"query": ["a", "b"], "documents": ["b", "c"]})")
                ->error_param(),
            "query");
}

// text-embeddings-inference's request, which llama.cpp's clients may send too.
TEST(Scores, ARankingOfTexts) {
  FakeServer s;
  const auto e = s.ask("POST", "/rerank",
                       R"({"query": "a", "texts": ["b", "c"], "return_text": true, "truncate": true,
                           "raw_scores": false})");
  ASSERT_EQ(s.engine.requests.size(), 3u) << e->head->body;
  EXPECT_EQ(s.engine.requests[1].options.truncate_prompt_tokens(), -1);
  answer(s, 0, {1, 0}, 1);
  answer(s, 1, {0, 1}, 1);
  answer(s, 2, {1, 0}, 1);
  e->run_posted();
  EXPECT_EQ(e->json(), json_from<json>(R"([{"index": 1, "score": 1.0, "text": "c"},
                                       {"index": 0, "score": 0.0, "text": "b"}])"));
  const auto plain = s.ask("POST", "/rerank", R"({"query": "a", "texts": ["b"]})");
  for (size_t i = 3; i < 5; ++i) answer(s, i, {1, 0}, 1);
  plain->run_posted();
  EXPECT_EQ(plain->json(), json_from<json>(R"([{"index": 0, "score": 1.0}])"));
  EXPECT_EQ(s.ask("POST", "/rerank", R"({"query": "a", "texts": [5]})")->error_param(), "texts");
}

TEST(Scores, OneTextForEachUnderEveryName) {
  for (const char* body : {R"({"text_1": ["a", "b"], "text_2": ["c", "d"]})",
                           R"({"queries": ["a", "b"], "documents": ["c", "d"]})",
                           R"({"queries": ["a", "b"], "items": ["c", "d"]})",
                           R"({"data_1": ["a", "b"], "data_2": ["c", "d"]})"}) {
    FakeServer s;
    const auto e = s.ask("POST", "/score", body);
    ASSERT_EQ(s.engine.requests.size(), 4u) << body;
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(s.engine.requests[i].prompt.encoder().text(),
                std::string(1, static_cast<char>('a' + i)));
    answer(s, 0, {1, 0}, 1);
    answer(s, 1, {0, 0}, 1);  // torch: 0, not a division by it
    answer(s, 2, {3, 4}, 1);
    answer(s, 3, {1, 1}, 1);
    e->run_posted();
    EXPECT_DOUBLE_EQ(e->json()["data"][0]["score"].get<double>(), 0.6);
    EXPECT_EQ(e->json()["data"][1]["score"], 0);
  }
}

TEST(Scores, BadBodies) {
  FakeServer s;
  s.config.max_prompts = 2;
  const std::pair<const char*, const char*> cases[] = {
      {R"({})", "text_1"},
      {R"({"text_1": "a"})", "text_2"},
      {R"({"text_2": "a"})", "text_1"},
      {R"({"queries": "a"})", "documents"},
      {R"({"documents": "a"})", "queries"},
      {R"({"text_1": "a", "documents": "a"})", "queries"},
      {R"({"text_1": "a", "text_2": []})", "text_2"},
      {R"({"text_1": ["a", "b"], "text_2": "a"})", "text_1"},
      {R"({"text_1": "a", "text_2": ["a", "b", "c"]})", "text_2"},
      {R"({"text_1": "a", "text_2": [5]})", "text_2"},
      {R"({"text_1": "a", "text_2": "b", "max_tokens": 1})", "max_tokens"}};
  for (const auto& [body, param] : cases) {
    const auto e = s.ask("POST", "/v1/score", body);
    EXPECT_EQ(e->status(), 400) << body;
    EXPECT_EQ(e->error_param(), param) << body;
  }
  EXPECT_TRUE(s.engine.requests.empty());
}

// What this route meant once.
TEST(Scores, OfTargetsAreElsewhere) {
  FakeServer s;
  for (const char* body : {R"({"text_1": "a", "text_2": "b", "append_eos": false})",
                           R"({"prompt": "a", "target": "b"})"}) {
    const auto e = s.ask("POST", "/v1/score", body);
    EXPECT_EQ(e->status(), 400);
    const std::string message = e->json()["error"]["message"];
    EXPECT_NE(message.find("/v1/target_scores"), std::string::npos) << message;
  }
}

TEST(Scores, FaultsOfTexts) {
  const std::pair<size_t, const char*> cases[] = {
      {0, "text_1[0]"}, {1, "text_2[0]"}, {2, "text_2[1]"}};
  for (const auto& [which, param] : cases) {
    FakeServer s;
    const auto e = s.ask("POST", "/score", R"({"text_1": "a", "text_2": ["b", "c"]})");
    s.engine.fail(which, "resource_error", "prompt.encoder_prompt");
    e->run_posted();
    EXPECT_EQ(e->status(), 400);
    EXPECT_EQ(e->error_param(), param);
    EXPECT_EQ(s.engine.cancelled.size(), 2u);
    EXPECT_EQ(s.context.prompts_under_way, 0);
  }
}

}  // namespace
}  // namespace tandem::score_test
