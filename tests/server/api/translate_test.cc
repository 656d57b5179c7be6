// /v1/translate, DeepL's, without sockets and without an engine.
#include <gtest/gtest.h>

#include "tests/support/network/fake_http.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::FakeServer;
using Target = LanguageSet::Rule::Target;

void answer(FakeServer& s, size_t i, const std::string& text) {
  proto::RequestChunk chunk;
  chunk.mutable_inputs()->add_encoder_prompt_token_ids(1);
  proto::CompletionChunk& news = *chunk.add_outputs();
  news.set_text(text);
  news.add_token_ids(7);
  news.set_finish_reason("stop");
  chunk.set_finished(true);
  s.engine.callbacks.at(s.engine.requests.at(i).id)(chunk);
}

LanguageSet many() {
  return LanguageSet({"", "", "", Target::kForcedBos},
                     {{"eng_Latn", 5}, {"deu_Latn", 6}, {"zho_Hans", 7}, {"zho_Hant", 8}},
                     /*has_source=*/true, "eng_Latn");
}

TEST(Translate, AsDeepLsClientsAsk) {
  FakeServer s;
  s.tokenizer.named = many();
  const auto e = s.ask("POST", "/v2/translate",
                       R"({"text": ["a", "b"], "source_lang": "EN", "target_lang": "DE",
                           "show_billed_characters": true, "preserve_formatting": false})");
  ASSERT_EQ(s.engine.requests.size(), 2u);
  for (const auto& request : s.engine.requests) {
    EXPECT_EQ(request.options.src_lang(), "eng_Latn");
    EXPECT_EQ(request.options.tgt_lang(), "deu_Latn");
  }
  answer(s, 1, "B");
  answer(s, 0, "A");
  e->run_posted();
  const json body = e->json();
  ASSERT_EQ(body["translations"].size(), 2u);
  EXPECT_EQ(body["translations"][0]["text"], "A");
  EXPECT_EQ(body["translations"][1]["text"], "B");
  EXPECT_EQ(body["translations"][1]["detected_source_language"], "eng_Latn");
  EXPECT_EQ(body["translations"][1]["finish_reason"], "stop");
  EXPECT_EQ(body["usage"]["completion_tokens"], 2);
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

TEST(Translate, OneTextAndParameters) {
  FakeServer s;
  s.tokenizer.named = many();
  const auto e = s.ask("POST", "/v1/translate",
                       R"({"text": "a", "target_lang": "zho_hant", "num_beams": 4, "task": "t"})");
  ASSERT_EQ(s.engine.requests.size(), 1u);
  EXPECT_EQ(test::shown(s.engine.requests[0].options),
            test::options({{"tgt_lang", "zho_Hant"}, {"num_beams", 4}, {"task", "t"}}));
  answer(s, 0, "A");
  e->run_posted();
  EXPECT_EQ(e->json()["translations"][0]["detected_source_language"], "eng_Latn");
}

TEST(Translate, BadFields) {
  FakeServer s;
  s.tokenizer.named = many();
  const std::pair<const char*, const char*> cases[] = {
      {R"({"target_lang": "de"})", "text"},
      {R"({"text": []})", "text"},
      {R"({"text": ["a", 5]})", "text"},
      {R"({"text": "a", "target_lang": 5})", "target_lang"},
      {R"({"text": "a", "stream": true})", "stream"},
      {R"({"text": "a", "n": 2, "num_beams": 2})", "n"},
      {R"({"text": "a", "glossary_id": "x"})", "glossary_id"}};
  for (const auto& [body, param] : cases) {
    const auto e = s.ask("POST", "/v1/translate", body);
    EXPECT_EQ(e->status(), 400) << body;
    EXPECT_EQ(e->error_param(), param) << body;
  }
  EXPECT_TRUE(s.engine.requests.empty());
  // In the usual script; what is no language, the engine refuses by its name.
  s.ask("POST", "/v1/translate", R"({"text": "a", "target_lang": "zh"})");
  EXPECT_EQ(s.engine.requests.at(0).options.tgt_lang(), "zho_Hans");
  s.ask("POST", "/v1/translate", R"({"text": "a", "target_lang": "xx"})");
  EXPECT_EQ(s.engine.requests.at(1).options.tgt_lang(), "xx");
}

}  // namespace
}  // namespace tandem
