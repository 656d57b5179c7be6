// What HTTP clients are told when there is no room for their requests (docs/serving.md, Overload).
#include <gtest/gtest.h>

#include "tests/support/network/fake_http.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::FakeServer;

TEST(Overload, AsManyPromptsAsTheServerTakes) {
  FakeServer s;
  s.config.max_requests = 2;
  s.ask("POST", "/v1/completions", R"({"prompt": ["a", "b"]})");
  const char* const one = R"({"prompt": "c"})";
  EXPECT_EQ(*s.ask("POST", "/v1/completions", one)->header("retry-after"), "1");
  s.engine.state.info.set_until_next_end(6.1);
  const auto refused = s.ask("POST", "/v1/completions", one);
  EXPECT_EQ(refused->status(), 429);
  EXPECT_EQ(*refused->header("retry-after"), "7");
  EXPECT_EQ(refused->json()["error"]["type"], "overloaded_error");
  EXPECT_EQ(s.engine.requests.size(), 2u);
}

TEST(Overload, MoreThanTheServerEverTakes) {
  FakeServer s;
  s.config.max_requests = 2;
  const struct {
    const char *route, *body, *field;
  } cases[] = {{"/v1/completions", R"({"prompt": ["a", "b", "c"]})", "prompt"},
               {"/v1/embeddings", R"({"input": ["a", "b", "c"]})", "input"},
               {"/v1/target_scores", R"({"prompt": "a", "target": ["a", "b", "c"]})", "target"},
               {"/score", R"({"text_1": "a", "text_2": ["b", "c"]})", "text_2"},
               {"/score", R"({"queries": "a", "documents": ["b", "c"]})", "documents"}};
  for (const auto& c : cases) {
    const auto e = s.ask("POST", c.route, c.body);
    EXPECT_EQ(e->status(), 400) << "trying again is no use: " << c.route;
    EXPECT_EQ(e->header("retry-after"), nullptr);
    EXPECT_EQ(e->error_param(), c.field);
    EXPECT_EQ(e->json()["error"]["type"], "invalid_request_error");
    EXPECT_NE(e->json()["error"]["message"].get<std::string>().find(
                  "3 at once; the server takes at most 2"),
              std::string::npos);
  }
  EXPECT_TRUE(s.engine.requests.empty());
  EXPECT_EQ(s.context.prompts_under_way, 0);
  s.ask("POST", "/v1/completions", R"({"prompt": ["a", "b"]})");
  EXPECT_EQ(s.engine.requests.size(), 2u);
}

TEST(Overload, RefusedForItsWait) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/completions", R"({"prompt": ["a", "b"], "stream": true})");
  EXPECT_EQ(s.engine.requests[0].batch, "");
  EXPECT_EQ(s.engine.requests[1].batch, s.engine.requests[0].id) << "in as a whole, or not at all";
  proto::RequestChunk chunk;
  chunk.mutable_error()->set_type("overloaded_error");
  chunk.mutable_error()->set_message("the request would wait");
  chunk.mutable_error()->set_retry_after(2.3);
  chunk.set_finished(true);
  s.engine.callbacks.at(s.engine.requests[0].id)(chunk);
  e->run_posted();
  EXPECT_EQ(e->status(), 429);
  EXPECT_EQ(*e->header("retry-after"), "3");
  EXPECT_EQ(e->json()["error"]["message"], "the request would wait");
}

// While the engine refuses everybody, what is asked is not even parsed; what it has no part in goes
// on.
TEST(Overload, RefusedUnread) {
  FakeServer s;
  s.engine.full.emplace();
  s.engine.full->set_type("overloaded_error");
  s.engine.full->set_message("the request would wait");
  s.engine.full->set_retry_after(1.2);
  for (const char* path : {"/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/score",
                           "/v1/target_scores"}) {
    const auto e = s.ask("POST", path, "no JSON");
    EXPECT_EQ(e->status(), 429) << path;
    EXPECT_EQ(*e->header("retry-after"), "2");
    EXPECT_EQ(e->json()["error"]["message"], "the request would wait");
  }
  EXPECT_TRUE(s.engine.requests.empty());
  EXPECT_EQ(s.ask("POST", "/tokenize", R"({"prompt": "a"})")->status(), 200);
  EXPECT_EQ(s.ask("GET", "/health")->status(), s.ask("GET", "/ping")->status());
  EXPECT_NE(s.ask("GET", "/metrics")->head->body.find("type=\"overloaded_error\"} 5"),
            std::string::npos);
  s.engine.full.reset();
  EXPECT_EQ(s.ask("POST", "/v1/completions", "no JSON")->status(), 400);
}

TEST(Overload, Metrics) {
  FakeServer s;
  s.config.max_requests = 1;
  s.engine.state.info.set_expected_wait(1.5);
  s.engine.state.info.set_refused_queue_time(7);
  s.engine.state.info.set_refused_deadline(8);
  s.engine.state.info.set_refused_full(9);
  for (int i = 0; i < 3; ++i) s.ask("POST", "/v1/completions", R"({"prompt": "a"})");
  const std::string text = s.ask("GET", "/metrics")->head->body;
  const std::string refused = "tandem:requests_refused_total{model_name=\"model\",reason=";
  for (const std::string& line :
       {std::string("tandem:expected_wait_seconds{model_name=\"model\"} 1.5\n"),
        refused + "\"queue_time\"} 7\n", refused + "\"deadline\"} 8\n",
        refused + "\"max_requests\"} 9\n", refused + "\"http_prompts\"} 2\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  EXPECT_EQ(s.ask("GET", "/status")->json()["expected_wait"], 1.5);
}

}  // namespace
}  // namespace tandem
