// /v1/target_scores without sockets and without an engine.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/network/fake_http.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::FakeServer;

TEST(TargetScores, OneForEachTarget) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/target_scores",
                       R"({"prompt": "source", "target": ["a", "b"], "append_eos": false})");
  ASSERT_EQ(s.engine.requests.size(), 2u);
  EXPECT_EQ(test::shown(s.engine.requests[1].prompt),
            test::prompt({{"encoder_prompt", "source"}, {"target", "b"}, {"append_eos", false}}));
  for (size_t i = 0; i < 2; ++i) {
    proto::RequestChunk chunk;
    chunk.mutable_inputs()->set_target_start(2);
    chunk.mutable_inputs()->add_encoder_prompt_token_ids(5);
    const auto add = [&](proto::TokenLogprobs* to, int id, float logprob) {
      to->add_top()->set_token_id(id);
      to->mutable_top(0)->set_logprob(logprob);
    };
    add(chunk.add_prompt_logprobs(), 7, -9);  // of what the target stands behind
    add(chunk.add_prompt_logprobs(), 8, -1);
    add(chunk.add_outputs()->add_logprobs(), 9, -2 - static_cast<float>(i));
    chunk.set_finished(true);
    s.engine.callbacks.at(s.engine.requests[i].id)(chunk);
    e->run_posted();
  }
  const json answer = e->json();
  EXPECT_EQ(answer["data"][0]["token_ids"], json({8, 9}));
  EXPECT_EQ(answer["data"][0]["score"], -1.5);
  EXPECT_EQ(answer["data"][1]["cumulative_logprob"], -4);
  EXPECT_DOUBLE_EQ(answer["data"][1]["perplexity"].get<double>(), std::exp(2.0));
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

TEST(TargetScores, BadBodies) {
  FakeServer s;
  const std::pair<const char*, const char*> cases[] = {
      {R"({"target": "a"})", "prompt"},
      {R"({"prompt": "a"})", "target"},
      {R"({"prompt": [], "target": "a"})", "prompt"},
      {R"({"prompt": ["a", "b"], "target": "a"})", "prompt"},
      {R"({"prompt": "a", "target": [5]})", "target"},
      {R"({"prompt": "a", "target": "b", "append_eos": 1})", "append_eos"},
      {R"({"prompt": "a", "target": "b", "max_tokens": 1})", "max_tokens"}};
  for (const auto& [body, param] : cases) {
    const auto e = s.ask("POST", "/v1/target_scores", body);
    EXPECT_EQ(e->status(), 400) << body;
    EXPECT_EQ(e->error_param(), param) << body;
  }
  const auto e = s.ask("POST", "/v1/target_scores", R"({"prompt": "a", "target": ["b", "c"]})");
  s.engine.fail(0, "resource_error", "target");
  e->run_posted();
  EXPECT_EQ(e->status(), 400);
  EXPECT_EQ(e->error_param(), "target[0]");
  EXPECT_EQ(s.engine.cancelled.size(), 1u);
  e->run_posted();
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

// The engine's names of its fields mean nothing to who asked for scores.
TEST(TargetScores, FaultsOfSources) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt": "a", "target": ["b", "c"]})", "prompt[0]"},
      {R"({"prompt": ["a", "d"], "target": ["b", "c"]})", "prompt[1]"}};
  for (const auto& [body, param] : cases) {
    FakeServer s;
    const auto e = s.ask("POST", "/v1/target_scores", body);
    s.engine.fail(1, "resource_error", "prompt.encoder_prompt");
    e->run_posted();
    EXPECT_EQ(e->error_param(), param) << body;
  }
}

TEST(TargetScores, AreCounted) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/target_scores", R"({"prompt": "a", "target": "b"})");
  proto::RequestChunk chunk;
  chunk.mutable_inputs()->add_encoder_prompt_token_ids(5);
  chunk.set_finished(true);
  s.engine.callbacks.at(s.engine.requests[0].id)(chunk);
  e->run_posted();
  EXPECT_EQ(s.context.metrics.totals().prompt_tokens, 1);
}

}  // namespace
}  // namespace tandem
