// vLLM's fields of requests for text, beside OpenAI's: each does what it says, is without effect,
// or is an error.
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <fstream>
#include <sstream>

#include "base/json.h"
#include "server/api/generation/foreign_fields.h"
#include "tests/support/network/fake_http.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::FakeServer;

const std::pair<const char*, json> kEndpoints[] = {
    {"/v1/completions", {{"prompt", "a"}}},
    {"/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "a"}}}}}}};

// What the engine gets as parameters; the field at fault if it gets nothing.
std::string asked(const char* path, json body, const json& fields) {
  FakeServer s;
  body.update(fields);
  const auto e = s.ask("POST", path, body.dump());
  if (e->head) return e->status() == 400 ? e->error_param() : "not a 400";
  return test::shown(s.engine.requests.at(0).options);
}

void add_prompt_logprobs(proto::RequestChunk& chunk, int id, std::vector<float> logprobs) {
  auto* list = chunk.add_prompt_logprobs();
  for (size_t i = 0; i < logprobs.size(); ++i) {
    auto* top = list->add_top();
    top->set_token_id(id - static_cast<int>(i));
    top->set_logprob(logprobs[i]);
    top->set_rank(static_cast<int>(i) + 1);
    top->set_decoded_token("t" + std::to_string(id));
  }
}

TEST(VllmFields, GoToTheEngine) {
  const json fields[] = {{{"bad_words", {"x"}}},          {{"allowed_token_ids", {5}}},
                         {{"logit_bias", {{"5", 1}}}},    {{"cache_salt", "s"}},
                         {{"add_special_tokens", false}}, {{"prompt_logprobs", 2}},
                         {{"global_attention", {0, 3}}}};
  for (const auto& [path, body] : kEndpoints)
    for (const json& field : fields)
      EXPECT_EQ(asked(path, body, field), test::options(field)) << path;
}

TEST(VllmFields, AreWithoutEffectWhereThatIsHarmless) {
  json fields = {{"kv_transfer_params", nullptr},
                 {"vllm_xargs", json::object()},
                 {"response_format", {{"type", "text"}}},
                 {"tools", json::array()},
                 {"truncation_side", "right"},
                 {"echo", false},
                 {"documents", nullptr},
                 {"continue_final_message", false},
                 {"request_id", "r"},
                 {"return_tokens_as_token_ids", true},
                 {"return_token_ids", false}};
  for (const std::string& name : server::accepted_fields()) fields[name] = {{"any", 5}};
  for (const std::string& name : server::ignored_fields()) fields[name] = {{"any", 5}};
  for (const auto& [path, body] : kEndpoints) EXPECT_EQ(asked(path, body, fields), "") << path;
}

TEST(VllmFields, AreErrorsWhereTheAnswerWouldBeAnother) {
  const json other = {{"other", {{"than", "off"}}}};
  for (const auto& [path, body] : kEndpoints)
    for (const std::string& name : server::refused_fields())
      EXPECT_EQ(asked(path, body, {{name, other}}), name) << path;
  const auto& [chat, body] = kEndpoints[1];
  EXPECT_EQ(asked(chat, body, {{"echo", true}}), "echo");
  for (const json& id : {json(""), json("a b"), json(5), json(std::string(129, 'x'))})
    EXPECT_EQ(asked(chat, body, {{"request_id", id}}), "request_id");
}

// One line for each field, however often it comes.
TEST(VllmFields, TheLogNamesWhatIsIgnoredOnce) {
  std::ostringstream text;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
  json fields = {{"verbosity", nullptr}, {"chat_template_kwargs", json::object()}};
  server::take_foreign_fields(fields);
  EXPECT_EQ(text.str(), "") << "nothing is asked for";
  for (int i = 0; i < 3; ++i) {
    fields = {{"verbosity", "low"}, {"user", "u"}};
    server::take_foreign_fields(fields);
    EXPECT_TRUE(fields.empty());
  }
  spdlog::set_default_logger(before);
  const std::string log = text.str();
  // Another test of this process may have been first.
  EXPECT_LE(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_EQ(log.find("user"), std::string::npos);
}

TEST(VllmFields, AreDocumented) {
  std::ifstream file(std::string(TANDEM_SOURCE_DIR) + "/docs/serving.md");
  std::ostringstream text;
  text << file.rdbuf();
  for (const auto& names :
       {server::accepted_fields(), server::ignored_fields(), server::refused_fields()})
    for (const std::string& name : names)
      EXPECT_NE(text.str().find("`" + name + "`"), std::string::npos) << name;
}

TEST(RequestIds, AreTheAnswersUnlessTheHeaderHasOne) {
  const char* body = R"({"prompt": "a", "request_id": "mine"})";
  FakeServer s;
  auto e = s.ask("POST", "/v1/completions", body);
  EXPECT_EQ(s.engine.requests[0].id.rfind("mine-", 0), 0u) << s.engine.requests[0].id;
  s.engine.say(0, "x", {5}, "stop");
  e->run_posted();
  EXPECT_EQ(e->json()["id"], "cmpl-mine");
  e = s.ask("POST", "/v1/completions", body, {{"x-request-id", "rid"}});
  s.engine.say(1, "x", {5}, "stop");
  e->run_posted();
  EXPECT_EQ(e->json()["id"], "cmpl-rid");
}

TEST(TokensAsIds, InLogprobs) {
  FakeServer s;
  auto e = s.ask("POST", "/v1/completions",
                 R"({"prompt": "a", "logprobs": 1, "return_tokens_as_token_ids": true})");
  s.engine.say(0, "xy", {5, 77}, "stop");
  e->run_posted();
  const json logprobs = e->json()["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], json({"token_id:5", "token_id:77"}));
  EXPECT_EQ(logprobs["text_offset"], json({0, 2})) << "of the texts";
  e = s.ask("POST", "/v1/chat/completions",
            R"({"messages": [{"role": "user", "content": "a"}], "logprobs": true,
                "return_tokens_as_token_ids": true})");
  s.engine.say(1, "x", {5}, "stop");
  e->run_posted();
  const json token = e->json()["choices"][0]["logprobs"]["content"][0];
  EXPECT_EQ(token["token"], "token_id:5");
  EXPECT_EQ(token["bytes"], json({'t', '5'}));
}

TEST(Echo, StandsBeforeTheOffsets) {
  FakeServer s;
  auto e = s.ask("POST", "/v1/completions", R"({"prompt": "abc", "echo": true, "logprobs": 0})");
  s.engine.say(0, "xy", {5, 6}, "stop");
  e->run_posted();
  EXPECT_EQ(e->json()["choices"][0]["text"], "abcxy");
  EXPECT_EQ(e->json()["choices"][0]["logprobs"]["text_offset"], json({3, 5}));
  e = s.ask("POST", "/v1/completions",
            R"({"prompt": "abc", "echo": true, "logprobs": 0, "stream": true})");
  s.engine.say(1, "x1", {5});
  s.engine.say(1, "y2", {6}, "stop");
  e->run_posted();
  const auto events = e->events();
  EXPECT_EQ(json_from<json>(events[0])["choices"][0]["text"], "abcx1");
  EXPECT_EQ(json_from<json>(events[0])["choices"][0]["logprobs"]["text_offset"], json({3}));
  EXPECT_EQ(json_from<json>(events[1])["choices"][0]["logprobs"]["text_offset"], json({5}));
}

// OpenAI and vLLM count characters, not the bytes that UTF-8 makes of them.
TEST(TextOffset, CountsCharacters) {
  FakeServer s;
  s.engine.token_texts = {{5, "é"}, {6, "日本"}, {7, "😀"}};
  auto e = s.ask("POST", "/v1/completions", R"({"prompt": "äöü", "echo": true, "logprobs": 0})");
  s.engine.say(0, "é日本😀", {5, 6, 7}, "stop");
  e->run_posted();
  EXPECT_EQ(e->json()["choices"][0]["logprobs"]["text_offset"], json({3, 4, 6}));
  e = s.ask("POST", "/v1/completions",
            R"({"prompt": "äöü", "echo": true, "logprobs": 0, "stream": true})");
  s.engine.say(1, "é", {5});
  s.engine.say(1, "日本😀", {6, 7}, "stop");
  e->run_posted();
  const auto events = e->events();
  EXPECT_EQ(json_from<json>(events[0])["choices"][0]["logprobs"]["text_offset"], json({3}));
  EXPECT_EQ(json_from<json>(events[1])["choices"][0]["logprobs"]["text_offset"], json({4, 6}));
}

// News of them may come in pieces, before the first token or with it.
TEST(PromptLogprobs, StandInEachChoice) {
  FakeServer s;
  const auto e = s.ask("POST", "/v1/completions",
                       R"({"prompt": ["a", "b"], "n": 2, "temperature": 1, "prompt_logprobs": 1})");
  ASSERT_EQ(s.engine.requests.size(), 2u);
  for (size_t part = 0; part < 2; ++part) {
    proto::RequestChunk chunk;
    add_prompt_logprobs(chunk, 9 + static_cast<int>(part), {-1.5f, -0.5f});
    s.engine.callbacks.at(s.engine.requests[part].id)(chunk);
    proto::RequestChunk more;
    add_prompt_logprobs(more, 20, {-2.0f});
    s.engine.callbacks.at(s.engine.requests[part].id)(more);
  }
  for (size_t part = 0; part < 2; ++part) {
    s.engine.say(part, "x", {5}, "stop", 0, false);
    s.engine.say(part, "y", {5}, "stop", 1);
  }
  e->run_posted();
  const json body = e->json();
  EXPECT_FALSE(body.contains("prompt_logprobs"));
  ASSERT_EQ(body["choices"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const json& list = body["choices"][i]["prompt_logprobs"];
    ASSERT_EQ(list.size(), 3u);
    EXPECT_TRUE(list[0].is_null());
    const int own = 9 + static_cast<int>(i / 2);
    EXPECT_EQ(list[1][std::to_string(own)],
              json({{"logprob", -1.5}, {"rank", 1}, {"decoded_token", "t" + std::to_string(own)}}));
    EXPECT_EQ(list[1].size(), 2u);
    EXPECT_TRUE(list[2].contains("20"));
  }
}

TEST(PromptLogprobs, OfChatsAndWithoutBeingAskedFor) {
  FakeServer s;
  auto e = s.ask("POST", "/v1/chat/completions",
                 R"({"messages": [{"role": "user", "content": "a"}], "prompt_logprobs": 0})");
  s.engine.say(0, "x", {5}, "stop");
  e->run_posted();
  EXPECT_EQ(e->json()["prompt_logprobs"], json::array({nullptr})) << "of one token";
  for (const char* off : {"null", "false"}) {
    e = s.ask("POST", "/v1/completions",
              std::string(R"({"prompt": "a", "stream": true, "prompt_logprobs": )") + off + "}");
    EXPECT_FALSE(e->head) << off;
  }
  e = s.ask("POST", "/v1/completions", R"({"prompt": "a", "stream": true, "prompt_logprobs": 0})");
  EXPECT_EQ(e->error_param(), "prompt_logprobs");
}

}  // namespace
}  // namespace tandem
