// Errors name what the client sent: every route, with every name that is not the engine's.
#include "server/api/fields/field_names.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/support/network/fake_http.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::FakeServer;

TEST(FieldNames, ReplaceWholeNames) {
  server::FieldNames names;
  names.add("num_beams", "best_of");
  names.add("best_of", "n");
  names.add("prompt", "messages");
  names.add("prompt.decoder_prompt", "decoder_prompt");
  EXPECT_EQ(names.of("num_beams"), "best_of");
  EXPECT_EQ(names.of("seed"), "seed");
  EXPECT_EQ(names.in("num_beams: 3 is more than num_beams_2 (num_beams 2), best_of."),
            "best_of: 3 is more than num_beams_2 (best_of 2), n.");
  EXPECT_EQ(names.in("prompt: is behind a prompt"), "messages: is behind a prompt");
  EXPECT_EQ(names.in("prompt.decoder_prompt: a prompt.decoder_prompt."),
            "decoder_prompt: a decoder_prompt.");
  EXPECT_EQ(names.in("prompting. prompt.x"), "prompting. prompt.x");
  for (const char* text : {"", ".", "...", "ä prompt", "a.b", "a.", ".a", "é_prompt"})
    EXPECT_EQ(names.in(text), text);
  const InputError error = names.in(invalid_request("num_beams", "wrong"));
  EXPECT_EQ(error.param(), "best_of");
  EXPECT_STREQ(error.what(), "best_of: wrong");
}

struct Case {
  const char* fields;  // of the body
  const char *ours, *theirs;
};

void check(const char* path, const json& body, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    FakeServer s;
    json all = body;
    all.update(json_from<json>(c.fields));
    const auto e = s.ask("POST", path, all.dump());
    ASSERT_FALSE(e->head) << path << all << e->head->body;
    s.engine.fail(s.engine.requests.size() - 1, "invalid_request_error", c.ours);
    e->run_posted();
    EXPECT_EQ(e->status(), 400);
    EXPECT_EQ(e->error_param(), c.theirs) << path << all;
    EXPECT_EQ(e->json()["error"]["message"], std::string(c.theirs) + ": because") << path << all;
  }
}

const std::vector<Case> kLanguages = {{R"({"target_lang": "x"})", "tgt_lang", "target_lang"},
                                      {R"({"tgt_lang": "x"})", "tgt_lang", "tgt_lang"},
                                      {R"({"source_lang": "x"})", "src_lang", "source_lang"},
                                      {R"({"src_lang": "x"})", "src_lang", "src_lang"}};
const std::vector<Case> kGeneration = {
    {R"({"max_completion_tokens": 5})", "max_tokens", "max_completion_tokens"},
    {R"({"max_tokens": 5})", "max_tokens", "max_tokens"},
    {R"({"max_tokens": 5, "max_completion_tokens": 5})", "max_tokens", "max_tokens"},
    {R"({"max_new_tokens": 5})", "max_new_tokens", "max_new_tokens"},
    {R"({"use_beam_search": true, "best_of": 4})", "num_beams", "best_of"},
    {R"({"use_beam_search": true, "best_of": 4, "n": 2})", "num_return_sequences", "n"},
    {R"({"use_beam_search": true, "n": 2})", "num_beams", "n"},
    {R"({"use_beam_search": true})", "num_beams", "use_beam_search"},
    {R"({"num_beams": 2, "num_return_sequences": 2})", "num_return_sequences",
     "num_return_sequences"},
    {R"({"n": 2, "temperature": 1})", "n", "n"},
    {R"({"best_of": 2, "temperature": 1})", "best_of", "best_of"},
    {R"({"decoder_prompt": "x"})", "decoder_prompt", "decoder_prompt"}};

TEST(FieldNames, OfCompletions) {
  check("/v1/completions", {{"prompt", "a"}}, kLanguages);
  check("/v1/completions", {{"prompt", "a"}}, kGeneration);
  check("/v1/completions", {{"prompt", "a"}},
        {{R"({"logprobs": 2})", "logprobs", "logprobs"}, {"{}", "prompt", "prompt"}});
}

TEST(FieldNames, OfChats) {
  const json body = {{"messages", {{{"role", "user"}, {"content", "a"}}}}};
  check("/v1/chat/completions", body, kLanguages);
  check("/v1/chat/completions", body, kGeneration);
  check("/v1/chat/completions", body,
        {{R"({"logprobs": true, "top_logprobs": 2})", "logprobs", "top_logprobs"},
         {R"({"logprobs": true})", "logprobs", "logprobs"},
         {"{}", "prompt", "messages"}});
}

TEST(FieldNames, OfTheOthers) {
  const std::vector<Case> source = {{R"({"source_lang": "x"})", "src_lang", "source_lang"},
                                    {R"({"src_lang": "x"})", "src_lang", "src_lang"}};
  for (const char* path : {"/v1/translate", "/v2/translate"}) {
    check(path, {{"text", "a"}}, kLanguages);
    check(path, {{"text", "a"}},
          {{R"({"use_beam_search": true, "best_of": 4})", "num_beams", "best_of"}});
  }
  check("/v1/embeddings", {{"input", "a"}}, source);
  check("/v1/embeddings", {{"input", "a"}}, {{"{}", "prompt", "input"}});
  check("/v1/embeddings", {{"input", {"a", "b"}}},
        {{"{}", "prompt", "input[1]"},
         {R"({"truncate_prompt_tokens": 5})", "truncate_prompt_tokens", "truncate_prompt_tokens"}});
  for (const char* path : {"/score", "/v1/score"}) {
    check(path, {{"text_1", "a"}, {"text_2", "b"}}, source);
    check(path, {{"queries", "a"}, {"documents", {"b"}}}, {{"{}", "prompt", "documents[0]"}});
  }
  check("/v1/target_scores", {{"prompt", "a"}, {"target", "b"}}, kLanguages);
  check("/v1/target_scores", {{"prompt", "a"}, {"target", "b"}},
        {{"{}", "target", "target[0]"}, {"{}", "prompt", "prompt[0]"}});
}

// What is wrong before the engine is asked.
TEST(FieldNames, OfValuesThatCannotBe) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"max_completion_tokens": 0})", "max_completion_tokens"},
      {R"({"max_completion_tokens": "many"})", "max_completion_tokens"},
      {R"({"target_lang": 5})", "target_lang"},
      {R"({"source_lang": ""})", "source_lang"},
      {R"({"best_of": "x"})", "best_of"},
      {R"({"use_beam_search": true, "best_of": 0})", "best_of"},
      {R"({"use_beam_search": true, "n": 100000})", "n"},
      {R"({"num_beams": 0})", "num_beams"},
      {R"({"decoder_prompt": 5})", "decoder_prompt"},
      {R"({"decoder_prompt": []})", "decoder_prompt"},
      {R"({"decoder_prompt": ["a"]})", "decoder_prompt"},
      {R"({"logit_bias": {"5": 1000}})", "logit_bias"}};
  for (const auto& [fields, theirs] : cases)
    for (json body :
         {json{{"prompt", "a"}}, json{{"messages", {{{"role", "user"}, {"content", "a"}}}}}}) {
      FakeServer s;
      const char* path = body.contains("prompt") ? "/v1/completions" : "/v1/chat/completions";
      body.update(json_from<json>(fields));
      const auto e = s.ask("POST", path, body.dump());
      ASSERT_EQ(e->status(), 400) << body;
      EXPECT_EQ(e->error_param(), theirs) << body;
      EXPECT_EQ(e->json()["error"]["message"].get<std::string>().find(theirs), 0u) << e->head->body;
    }
  FakeServer s;
  const auto e = s.ask("POST", "/v1/chat/completions",
                       R"({"messages": [{"role": "user", "content": "a"}], "logprobs": true,
                           "top_logprobs": 1000})");
  EXPECT_EQ(e->error_param(), "top_logprobs");
}

}  // namespace
}  // namespace tandem
