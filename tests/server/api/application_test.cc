// The life of a request for text, without sockets and without an engine.
#include "server/api/application.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/support/network/fake_http.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::FakeServer;

TEST(Generation, WholeAnswer) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/completions",
                       R"({"prompt": "source", "max_tokens": 9, "model": "alias"})");
  ASSERT_EQ(s.engine.requests.size(), 1u);
  EXPECT_EQ(s.engine.requests[0].prompt.encoder().text(), "source");
  EXPECT_EQ(test::shown(s.engine.requests[0].options), test::options({{"max_tokens", 9}}));
  EXPECT_EQ(s.context.prompts_under_way, 1);
  s.engine.say(0, "two ", {5, 6});
  e->run_posted();
  EXPECT_FALSE(e->head) << "not before the end";
  s.engine.say(0, "words", {7}, "stop");
  e->run_posted();
  ASSERT_EQ(e->status(), 200);
  const json answer = e->json();
  EXPECT_EQ(answer["id"], "cmpl-rid");
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["model"], "alias");
  EXPECT_EQ(answer["choices"][0]["text"], "two words");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(answer["usage"],
            json({{"prompt_tokens", 7}, {"completion_tokens", 3}, {"total_tokens", 10}}));
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

TEST(Generation, Stream) {
  FakeServer s;
  const auto e =
      s.ask("POST", "/v1/completions",
            R"({"prompt": "a", "stream": true, "stream_options": {"include_usage": true}})");
  EXPECT_FALSE(e->head) << "an error could still come";
  s.engine.say(0, "one", {5});
  s.engine.say(0, "", {6});  // half a character
  s.engine.say(0, " two", {7}, "length");
  e->run_posted();
  EXPECT_EQ(e->head->content_type, "text/event-stream; charset=utf-8");
  const auto events = e->events();
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(json_from<json>(events[0])["choices"][0]["text"], "one");
  EXPECT_TRUE(json_from<json>(events[0])["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(json_from<json>(events[1])["choices"][0]["text"], "");
  EXPECT_EQ(json_from<json>(events[2])["choices"][0]["text"], " two");
  EXPECT_EQ(json_from<json>(events[2])["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(json_from<json>(events[3])["choices"].empty());
  EXPECT_EQ(json_from<json>(events[3])["usage"]["completion_tokens"], 3);
  EXPECT_EQ(events[4], "[DONE]");
  EXPECT_TRUE(e->ended);
}

TEST(Generation, ChatStreamBeginsWithTheRole) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/chat/completions",
                       R"({"messages": [{"role": "user", "content": "hello"}], "stream": true,
                           "n": 2, "logprobs": true, "top_logprobs": 0})");
  EXPECT_EQ(s.engine.requests[0].prompt.encoder().text(), "hello");
  EXPECT_TRUE(s.engine.requests[0].options.do_sample()) << "OpenAI's default";
  s.engine.say(0, "x", {5}, "", 1);
  s.engine.say(0, "y", {6}, "stop", 0, false);
  s.engine.say(0, "z", {7}, "stop", 1);
  e->run_posted();
  const auto events = e->events();
  ASSERT_EQ(events.size(), 6u);
  for (int i = 0; i < 2; ++i) {
    const json first = json_from<json>(events[i])["choices"][0];
    EXPECT_EQ(first["index"], i);
    EXPECT_EQ(first["delta"]["role"], "assistant");
  }
  const json third = json_from<json>(events[2])["choices"][0];
  EXPECT_EQ(third["index"], 1);
  EXPECT_EQ(third["delta"]["content"], "x");
  EXPECT_EQ(third["logprobs"]["content"][0]["token"], "t5");
  EXPECT_EQ(json_from<json>(events[4])["choices"][0]["delta"]["content"], "z");
}

TEST(Generation, SeveralPromptsAndSequences) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/completions",
                       R"({"prompt": ["a", "b"], "n": 2, "temperature": 1, "echo": true})");
  ASSERT_EQ(s.engine.requests.size(), 2u);
  EXPECT_NE(s.engine.requests[0].id, s.engine.requests[1].id);
  s.engine.say(1, "3", {5}, "stop", 1, false);
  s.engine.say(0, "0", {5}, "stop", 0, false);
  s.engine.say(1, "2", {5}, "length", 0);
  EXPECT_FALSE(e->head);
  s.engine.say(0, "1", {5, 6}, "stop", 1);
  e->run_posted();
  const json answer = e->json();
  ASSERT_EQ(answer["choices"].size(), 4u);
  const char* const expected[] = {"a0", "a1", "b2", "b3"};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(answer["choices"][i]["text"], expected[i]);
  EXPECT_EQ(answer["choices"][2]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 14);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 5);
}

TEST(Generation, ErrorsOfTheEngine) {
  const std::pair<const char*, int> cases[] = {
      {"invalid_request_error", 400}, {"resource_error", 400}, {"overloaded_error", 429},
      {"unavailable_error", 503},     {"timeout_error", 408},  {"internal_error", 500},
      {"connection_error", 503},      {"something_else", 500}};
  for (const auto& [type, status] : cases) {
    FakeServer s;
    const auto e = s.ask("POST", "/v1/completions", R"({"prompt": "a", "stream": true})");
    s.engine.fail(0, type, "prompt");
    e->run_posted();
    EXPECT_EQ(e->status(), status) << type;
    EXPECT_EQ(e->json()["error"]["code"], status);
    EXPECT_EQ(e->error_param(), "prompt");
    EXPECT_EQ(e->header("retry-after") != nullptr, status == 429 || status == 503);
    EXPECT_EQ(s.context.prompts_under_way, 0);
  }
}

TEST(Generation, AnErrorInTheStreamEndsIt) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/completions", R"({"prompt": ["a", "b"], "stream": true})");
  s.engine.say(0, "x", {5});
  s.engine.fail(0, "internal_error");
  e->run_posted();
  const auto events = e->events();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(json_from<json>(events[1])["error"]["type"], "internal_error");
  EXPECT_EQ(events[2], "[DONE]");
  EXPECT_EQ(s.engine.cancelled, std::vector<std::string>{s.engine.requests[1].id});
  e->run_posted();
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

TEST(Generation, ClientsThatGoAreCancelled) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/completions", R"({"prompt": ["a", "b"]})");
  s.engine.say(0, "x", {5}, "stop");
  e->run_posted();
  e->gone();
  EXPECT_EQ(s.engine.cancelled, std::vector<std::string>{s.engine.requests[1].id});
  e->run_posted();
  EXPECT_FALSE(e->head);
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

TEST(Generation, MoreThanTheServerTakes) {
  FakeServer s;
  s.config.max_requests = 2;
  const auto first = s.ask("POST", "/v1/completions", R"({"prompt": ["a", "b"]})");
  const auto refused = s.ask("POST", "/v1/completions", R"({"prompt": "c"})");
  EXPECT_EQ(refused->status(), 429);
  EXPECT_NE(refused->header("retry-after"), nullptr);
  s.engine.say(0, "x", {5}, "stop");
  first->run_posted();
  s.ask("POST", "/v1/completions", R"({"prompt": "c"})");
  EXPECT_EQ(s.engine.requests.size(), 3u) << "one has made room";
}

// With every body the engine hears nothing, and the answer names the field.
TEST(Application, WhatIsMeantByAWrongRequestIsSaid) {
  FakeServer s;
  const auto message = [](const auto& exchange) {
    return exchange->json()["error"]["message"].template get<std::string>();
  };
  const auto near = s.ask("POST", "/v1/completion", "{}"), far = s.ask("GET", "/xyzzy/plugh");
  EXPECT_EQ(near->status(), 404);
  EXPECT_EQ(message(near),
            "there is no /v1/completion (did you mean /v1/completions?); /docs lists all routes");
  EXPECT_EQ(far->status(), 404);
  EXPECT_EQ(message(far), "there is no /xyzzy/plugh; /docs lists all routes");
}

TEST(Generation, BadBodies) {
  const std::pair<const char*, const char*> completions[] = {
      {"", "body"},
      {"[]", "body"},
      {R"({})", "prompt"},
      {R"({"prompt": null})", "prompt"},
      {R"({"prompt": []})", "prompt"},
      {R"({"prompt": 5})", "prompt"},
      {R"({"prompt": "a", "model": "other"})", "model"},
      {R"({"prompt": "a", "model": 5})", "model"},
      {R"({"prompt": "a", "stream": 1})", "stream"},
      {R"({"prompt": "a", "stream_options": {}})", "stream_options"},
      {R"({"prompt": "a", "stream": true, "stream_options": {"x": 1}})", "stream_options"},
      {R"({"prompt": "a", "stream": true, "stream_options": []})", "stream_options"},
      {R"({"prompt": "a", "echo": "yes"})", "echo"},
      {R"({"prompt": [5, 6], "echo": true})", "echo"},
      {R"({"prompt": "a", "suffix": "b"})", "suffix"},
      {R"({"prompt": "a", "timeout": 0})", "timeout"},
      {R"({"prompt": "a", "timeout": "1"})", "timeout"},
      {R"({"prompt": "a", "priority": 1.5})", "priority"},
      {R"({"prompt": "a", "priority": 18446744073709551615})", "priority"},
      {R"({"prompt": "a", "use_beam_search": 1})", "use_beam_search"},
      {R"({"prompt": "a", "use_beam_search": true, "num_beams": 2})", "use_beam_search"},
      {R"({"prompt": "a", "use_beam_search": true, "n": 0})", "n"},
  };
  const std::pair<const char*, const char*> chats[] = {
      {R"({})", "messages"},
      {R"({"messages": []})", "messages"},
      {R"({"messages": [{"role": "assistant", "content": "a"}]})", "messages"},
      {R"({"messages": [{"content": "a"}]})", "messages[0].role"},
      {R"({"messages": [{"role": "tool", "content": "a"}]})", "messages[0].role"},
      {R"({"messages": [{"role": "user"}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": 5}]})", "messages[0].content"},
      {R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
       "messages[0].content.image_url.url"},
      {R"({"messages": [{"role": "user", "content": "a"}], "tools": [{}]})", "tools"},
      {R"({"messages": [{"role": "user", "content": "a"}], "tool_choice": "required"})",
       "tool_choice"},
      {R"({"messages": [{"role": "user", "content": "a"}], "response_format": {"type": "xml"}})",
       "response_format"},
      {R"({"messages": [{"role": "user", "content": "a"}], "top_logprobs": 2})", "top_logprobs"},
      {R"({"messages": [{"role": "user", "content": "a"}], "logprobs": 2})", "logprobs"},
      {R"({"messages": [{"role": "user", "content": "a"}], "max_tokens": 1, "max_completion_tokens": 2})",
       "max_completion_tokens"},
  };
  FakeServer s;
  s.config.max_prompts = 3;
  const auto check = [&](const char* path, const std::string& body, const std::string& param) {
    const auto e = s.ask("POST", path, body);
    EXPECT_TRUE(e->status() == 400 || e->status() == 404) << body;
    EXPECT_EQ(e->error_param(), param) << body;
  };
  for (const auto& [body, param] : completions) check("/v1/completions", body, param);
  for (const auto& [body, param] : chats) check("/v1/chat/completions", body, param);
  check("/v1/completions", R"({"prompt": ["a","b","c","d"]})", "prompt");
  EXPECT_EQ(s.ask("POST", "/v1/completions", R"({"prompt": "a)")->status(), 400);
  EXPECT_EQ(s.ask("POST", "/v1/completions", "{\"prompt\": \"\xff\"}")->status(), 400);
  const std::string good = R"({"prompt": "a"})";
  for (const std::string& rest :
       {std::string("\0", 1), std::string("\0garbage", 8), std::string(" \0 ", 3), std::string("x"),
        good, std::string("\x1a")})
    EXPECT_EQ(s.ask("POST", "/v1/completions", good + rest)->status(), 400) << rest;
  EXPECT_EQ(s.ask("POST", "/v1/completions", std::string("\0", 1) + good)->status(), 400);
  EXPECT_EQ(s.ask("POST", "/v1/completions", std::string(200000, '['))->status(), 400);
  EXPECT_EQ(s.ask("POST", "/v1/completions", "prompt=a",
                  {{"content-type", "application/x-www-form-urlencoded"}})
                ->error_param(),
            "content-type");
  EXPECT_TRUE(s.engine.requests.empty());
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

TEST(Generation, WhitespaceMayFollowABody) {
  FakeServer s;
  s.ask("POST", "/v1/completions", "{\"prompt\": \"a\"} \t\r\n");
  EXPECT_EQ(s.engine.requests.size(), 1u);
}

TEST(Generation, WhatTheEngineIsAsked) {
  FakeServer s;
  s.config.request_timeout = 10;
  s.config.prompt_template = "{system}: {user}";
  const auto ask = [&](const char* path, const char* body) {
    s.ask("POST", path, body);
    return s.engine.requests.back();
  };
  auto r = ask("/v1/completions",
               R"({"prompt": "a", "temperature": null, "stop": null, "num_beams": null,
                                      "user": "u", "priority": -3, "timeout": 4})");
  EXPECT_EQ(test::shown(r.options), test::options({{"num_beams", nullptr}}))
      << "null of HuggingFace's names switches them off";
  EXPECT_EQ(r.priority, -3);
  EXPECT_EQ(r.timeout, 4);
  r = ask("/v1/completions", R"({"prompt": "a", "timeout": 400})");
  EXPECT_EQ(r.timeout, 10) << "the server's bound";
  r = ask("/v1/completions", R"({"prompt": [5, 6], "decoder_prompt": "b"})");
  EXPECT_EQ(test::shown(r.prompt),
            test::prompt({{"encoder_prompt", {5, 6}}, {"decoder_prompt", "b"}}));
  r = ask("/v1/completions",
          R"({"prompt": "a", "use_beam_search": true, "best_of": 4, "n": 2, "temperature": 0})");
  EXPECT_EQ(test::shown(r.options), test::options({{"num_beams", 4}, {"num_return_sequences", 2}}));
  r = ask("/v1/chat/completions", R"({"messages": [{"role": "system", "content": "be {user}"},
      {"role": "user", "content": "first"}, {"role": "assistant", "content": "no"},
      {"role": "user", "content": [{"type": "text", "text": "{sys"}, {"type": "text", "text": "tem}"}]}],
      "max_completion_tokens": 5})");
  EXPECT_EQ(r.prompt.encoder().text(), "be {user}: {system}") << "what messages say is no template";
  EXPECT_EQ(test::shown(r.options), test::options({{"max_tokens", 5}}));
}

TEST(Generation, Metrics) {
  FakeServer s;
  proto::SchedulerStats* stats = s.engine.state.info.add_replicas()->mutable_stats();
  stats->set_num_running(3);
  stats->set_num_total_blocks(10);
  stats->set_num_free_blocks(4);
  stats->set_num_preemptions(2);
  stats->set_spec_drafts(5);
  stats->set_spec_draft_tokens(12);
  stats->set_spec_accepted_tokens(7);
  for (const int right : {4, 3}) stats->add_spec_accepted_tokens_per_position(right);
  for (const double busy : {3.0, 4.5}) stats->add_stage_seconds(busy);
  stats->set_pipeline_seconds(6);
  stats->add_encoder_rank_seconds(2.5);
  const auto e = s.ask("POST", "/v1/completions", R"({"prompt": "a"})");
  s.engine.say(0, "x", {5, 6}, "length");
  e->run_posted();
  const std::string text = s.ask("GET", "/metrics")->head->body;
  for (const char* line :
       {"tandem:num_requests_running{model_name=\"model\"} 3\n",
        "vllm:num_requests_running{model_name=\"model\"} 3\n",
        "vllm:kv_cache_usage_perc{model_name=\"model\"} 0.6\n",
        "vllm:num_preemptions_total{model_name=\"model\"} 2\n",
        "vllm:spec_decode_num_drafts_total{model_name=\"model\"} 5\n",
        "vllm:spec_decode_num_draft_tokens_total{model_name=\"model\"} 12\n",
        "vllm:spec_decode_num_accepted_tokens_total{model_name=\"model\"} 7\n",
        "vllm:spec_decode_num_accepted_tokens_per_pos_total{model_name=\"model\",position=\"1\"} "
        "3\n",
        "tandem:pipeline_stage_busy_seconds_total{model_name=\"model\",stage=\"1\"} 4.5\n",
        "tandem:pipeline_seconds_total{model_name=\"model\"} 6\n",
        "vllm:generation_tokens_total{model_name=\"model\"} 2\n",
        "vllm:prompt_tokens_total{model_name=\"model\"} 7\n",
        "vllm:request_success_total{model_name=\"model\",finished_reason=\"length\"} 1\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"model\"} 1\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  const json replica = json_from<json>(s.ask("GET", "/status")->head->body)["replicas"][0];
  EXPECT_EQ(replica["stages"], json_from<json>(R"([{"busy_seconds": 3.0, "idle_share": 0.5},
                                               {"busy_seconds": 4.5, "idle_share": 0.25}])"));
  EXPECT_EQ(replica["encoder_ranks"], json_from<json>(R"([{"busy_seconds": 2.5}])"));
  // A replica that starts anew counts from zero; the total does not go back.
  stats->set_num_preemptions(1);
  EXPECT_NE(s.ask("GET", "/metrics")
                ->head->body.find("vllm:num_preemptions_total{model_name=\"model\"} 3\n"),
            std::string::npos);
}

}  // namespace
}  // namespace tandem
