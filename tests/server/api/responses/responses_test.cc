// /v1/responses without sockets and without an engine.
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/support/network/fake_http.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::FakeServer;

constexpr const char* kPath = "/v1/responses";

TEST(Responses, WholeAnswer) {
  FakeServer s;
  const auto e = s.ask("POST", kPath, R"({"model": "alias", "input": "source",
      "max_output_tokens": 9, "temperature": 0.5, "metadata": {"k": "v"}, "store": false,
      "tools": [], "tool_choice": "auto", "truncation": "auto", "reasoning": {"effort": "low"},
      "text": {"format": {"type": "text"}, "verbosity": "low"}, "background": null})");
  ASSERT_EQ(s.engine.requests.size(), 1u) << e->head->body;
  EXPECT_EQ(s.engine.requests[0].prompt.encoder().text(), "source");
  EXPECT_EQ(
      test::shown(s.engine.requests[0].options),
      test::options({{"max_tokens", 9}, {"temperature", 0.5}, {"truncate_prompt_tokens", -1}}));
  s.engine.say(0, "two ", {5, 6});
  s.engine.say(0, "words", {7}, "stop");
  e->run_posted();
  const json r = e->json();
  EXPECT_EQ(r["id"], "resp_rid");
  EXPECT_EQ(r["object"], "response");
  EXPECT_EQ(r["status"], "completed");
  EXPECT_EQ(r["model"], "alias");
  EXPECT_EQ(r["store"], false);
  EXPECT_EQ(r["metadata"], json({{"k", "v"}}));
  EXPECT_EQ(r["temperature"], 0.5);
  EXPECT_EQ(r["max_output_tokens"], 9);
  EXPECT_TRUE(r["error"].is_null() && r["incomplete_details"].is_null());
  ASSERT_EQ(r["output"].size(), 1u);
  EXPECT_EQ(r["output"][0]["type"], "message");
  EXPECT_EQ(r["output"][0]["content"],
            json_from<json>(R"([{"type": "output_text", "text": "two words", "annotations": [],
                             "logprobs": []}])"));
  EXPECT_EQ(r["usage"]["input_tokens"], 7);
  EXPECT_EQ(r["usage"]["output_tokens"], 3);
  EXPECT_EQ(r["usage"]["total_tokens"], 10);
}

TEST(Responses, TextFormatsAreConstraintsAndAreRepeated) {
  FakeServer s;
  constexpr const char* kSchema =
      R"({"type":"object","properties":{"z":{"type":"integer"},"a":{}}})";
  const std::string format =
      R"({"type": "json_schema", "name": "pair", "strict": true, "schema": )" +
      std::string(kSchema) + "}";
  const auto schema = s.ask("POST", kPath, R"({"input": "x", "text": {"format": )" + format + "}}");
  const auto object =
      s.ask("POST", kPath, R"({"input": "x", "text": {"format": {"type": "json_object"}}})");
  const auto text = s.ask("POST", kPath, R"({"input": "x", "text": {"format": {"type": "text"}}})");
  ASSERT_EQ(s.engine.requests.size(), 3u) << schema->head->body << object->head->body;
  EXPECT_EQ(s.engine.requests[0].options.constraint().json_schema(), kSchema)
      << "properties in the client's order";
  EXPECT_TRUE(s.engine.requests[1].options.constraint().json_object());
  EXPECT_FALSE(s.engine.requests[2].options.has_constraint());
  for (size_t i = 0; i < 3; ++i) s.engine.say(i, "{}", {5}, "stop");
  for (const auto& e : {schema, object, text}) e->run_posted();
  EXPECT_EQ(schema->json()["text"]["format"], json_from<json>(format));
  EXPECT_EQ(object->json()["text"]["format"], json({{"type", "json_object"}}));
  EXPECT_EQ(text->json()["text"]["format"], json({{"type", "text"}}));
}

TEST(Responses, AnAnswerThatIsCut) {
  FakeServer s;
  const auto e = s.ask("POST", kPath, R"({"input": "a"})");
  s.engine.say(0, "x", {5}, "length");
  e->run_posted();
  EXPECT_EQ(e->json()["status"], "incomplete");
  EXPECT_EQ(e->json()["incomplete_details"], json({{"reason", "max_output_tokens"}}));
  EXPECT_EQ(e->json()["output"][0]["status"], "incomplete");
}

TEST(Responses, ItemsAndInstructions) {
  FakeServer s;
  s.config.prompt_template = "{system}|{user}";
  const auto text_of = [&](const char* body) {
    const size_t before = s.engine.requests.size();
    const auto e = s.ask("POST", kPath, body);
    EXPECT_EQ(s.engine.requests.size(), before + 1) << e->head->body;
    return s.engine.requests.back().prompt.encoder().text();
  };
  EXPECT_EQ(text_of(R"({"input": "u", "instructions": "i"})"), "i|u");
  const char* conversation = R"([{"role": "developer", "content": "d"},
      {"role": "user", "content": "first"},
      {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
       "content": [{"type": "output_text", "text": "o", "annotations": []}]},
      {"role": "user", "content": [{"type": "input_text", "text": "last"}]}])";
  EXPECT_EQ(text_of((R"({"input": )" + std::string(conversation) + "}").c_str()), "d|last");
  EXPECT_EQ(
      text_of((R"({"instructions": "i", "input": )" + std::string(conversation) + "}").c_str()),
      "i|last")
      << "instructions come first";
}

TEST(Responses, Stream) {
  FakeServer s;
  const auto e = s.ask("POST", kPath, R"({"input": "a", "stream": true, "top_logprobs": 0,
      "include": ["message.output_text.logprobs"],
      "stream_options": {"include_obfuscation": false}})");
  EXPECT_FALSE(e->head) << "an error could still come";
  s.engine.say(0, "one", {5});
  s.engine.say(0, " two", {6}, "stop");
  e->run_posted();
  const auto events = e->events();
  const char* const types[] = {"response.created",           "response.in_progress",
                               "response.output_item.added", "response.content_part.added",
                               "response.output_text.delta", "response.output_text.delta",
                               "response.output_text.done",  "response.content_part.done",
                               "response.output_item.done",  "response.completed"};
  ASSERT_EQ(events.size(), std::size(types)) << "and no [DONE]";
  for (size_t i = 0; i < events.size(); ++i) {
    const json event = json_from<json>(events[i]);
    EXPECT_EQ(event["type"], types[i]);
    EXPECT_EQ(event["sequence_number"], i);
    EXPECT_NE(e->stream.find("event: " + std::string(types[i]) + "\ndata: "), std::string::npos);
  }
  EXPECT_EQ(json_from<json>(events[0])["response"]["status"], "in_progress");
  EXPECT_EQ(json_from<json>(events[4])["delta"], "one");
  EXPECT_EQ(json_from<json>(events[4])["logprobs"][0]["token"], "t5");
  EXPECT_EQ(json_from<json>(events[6])["text"], "one two");
  EXPECT_EQ(json_from<json>(events[6])["logprobs"].size(), 2u);
  const json last = json_from<json>(events[9])["response"];
  EXPECT_EQ(last["output"][0]["content"][0]["text"], "one two");
  EXPECT_EQ(last["output"][0]["id"], json_from<json>(events[4])["item_id"]);
  EXPECT_EQ(last["usage"]["output_tokens"], 2);
}

TEST(Responses, StreamsThatFail) {
  FakeServer s;
  const auto early = s.ask("POST", kPath, R"({"input": "a", "stream": true})");
  s.engine.fail(0, "invalid_request_error", "prompt");
  early->run_posted();
  EXPECT_EQ(early->status(), 400);
  EXPECT_EQ(early->error_param(), "input");
  const auto late = s.ask("POST", kPath, R"({"input": "a", "stream": true})");
  s.engine.say(1, "one", {5});
  s.engine.fail(1, "internal_error");
  late->run_posted();
  const json last = json_from<json>(late->events().back());
  EXPECT_EQ(last["type"], "response.failed");
  EXPECT_EQ(last["response"]["status"], "failed");
  EXPECT_EQ(last["response"]["error"], json({{"code", "server_error"}, {"message", "because"}}));
  EXPECT_TRUE(late->ended);
  const auto gone = s.ask("POST", kPath, R"({"input": "a", "stream": true})");
  s.engine.say(2, "one", {5});
  gone->gone();
  EXPECT_EQ(s.engine.cancelled.size(), 1u);
  gone->run_posted();
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

TEST(Responses, RefusalsNameTheField) {
  const struct {
    const char *body, *field;
  } cases[] = {
      {R"({})", "input"},
      {R"({"input": []})", "input"},
      {R"({"input": 5})", "input"},
      {R"({"input": [5]})", "input[0]"},
      {R"({"input": [{"role": "user"}]})", "input[0].content"},
      {R"({"input": [{"role": "nobody", "content": "a"}]})", "input[0].role"},
      {R"({"input": [{"role": "user", "content": [{"type": "input_file"}]}]})", "input[0].content"},
      {R"({"input": [{"role": "user", "content": "a"}, {"type": "function_call_output"}]})",
       "input[1].type"},
      {R"({"input": "a", "previous_response_id": "resp_1"})", "previous_response_id"},
      {R"({"input": "a", "conversation": "c"})", "conversation"},
      {R"({"input": "a", "store": true})", "store"},
      {R"({"input": "a", "background": true})", "background"},
      {R"({"input": "a", "prompt": {"id": "p"}})", "prompt"},
      {R"({"input": "a", "tools": [{"type": "web_search"}]})", "tools"},
      {R"({"input": "a", "tool_choice": "required"})", "tool_choice"},
      {R"({"input": "a", "include": ["reasoning.encrypted_content"]})", "include"},
      {R"({"input": "a", "text": {"format": {"type": "xml"}}})", "text.format"},
      {R"({"input": "a", "text": {"format": "json_object"}})", "text.format"},
      {R"({"input": "a", "text": {"format": {"type": "json_schema", "name": "n"}}})",
       "text.format"},
      {R"({"input": "a", "text": {"format": {"type": "json_schema", "schema": 5}}})",
       "text.format"},
      {R"({"input": "a", "text": {"format": {"type": "json_object"}}, "guided_regex": "a"})",
       "text.format"},
      {R"({"input": "a", "text": {"verbositi": "low"}})", "text.verbositi"},
      {R"({"input": "a", "response_format": {"type": "json_object"}})", "response_format"},
      {R"({"input": "a", "truncation": "maybe"})", "truncation"},
      {R"({"input": "a", "max_output_tokens": 0})", "max_output_tokens"},
      {R"({"input": "a", "max_output_tokens": 5, "max_tokens": 6})", "max_output_tokens"},
      {R"({"input": "a", "temperature": -1})", "temperature"},
      {R"({"input": "a", "metadata": {"k": 5}})", "metadata"},
      {R"({"input": "a", "n": 2})", "n"},
      {R"({"input": "a", "messages": []})", "messages"},
      {R"({"input": "a", "stream_options": {}})", "stream_options"},
      {R"({"input": "a", "inptu": 1})", "inptu"}};
  for (const auto& c : cases) {
    FakeServer s;
    const auto e = s.ask("POST", kPath, c.body);
    ASSERT_EQ(e->status(), 400) << c.body;
    EXPECT_EQ(e->error_param(), c.field) << c.body << e->head->body;
  }
}

}  // namespace
}  // namespace tandem
