// /v1/translate, DeepL's, without sockets and without an engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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
  EXPECT_EQ(body["translations"][1]["detected_source_language"], "EN");
  EXPECT_EQ(body["translations"][1]["billed_characters"], 1);
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
            test::options(
                {{"tgt_lang", "zho_Hant"}, {"num_beams", 4}, {"task", "t"}, {"split", "auto"}}));
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

// Whom DeepL's clients are told what is wrong.
TEST(Translate, ErrorsHaveDeepLsMessage) {
  FakeServer s;
  s.tokenizer.named = many();
  const auto e = s.ask("POST", "/v2/translate", R"({"text": ["a"], "glossary_id": "x"})");
  EXPECT_EQ(e->status(), 400);
  EXPECT_EQ(e->error_param(), "glossary_id");
  EXPECT_EQ(e->json()["message"], e->json()["error"]["message"]);
  for (const char* path : {"/v2/write/rephrase", "/v3/style_rules"}) {
    const auto missing = s.ask("POST", path, "{}");
    EXPECT_EQ(missing->status(), 404);
    EXPECT_TRUE(missing->json()["message"].is_string()) << path;
  }
  const auto other = s.ask("POST", "/v1/translate", R"({"text": []})");
  EXPECT_FALSE(other->json().contains("message"));
}

TEST(Translate, KeysAsDeepLsClientsSendThem) {
  FakeServer s;
  s.config.api_keys = {"key"};
  for (const char* good : {"DeepL-Auth-Key key", "deepl-auth-key key", "Bearer key"})
    EXPECT_EQ(s.ask("GET", "/v2/usage", "", {{"authorization", good}})->status(), 200) << good;
  for (const char* bad : {"DeepL-Auth-Key keys", "DeepL-Auth-Key", "DeepL key"}) {
    const auto e = s.ask("GET", "/v2/usage", "", {{"authorization", bad}});
    EXPECT_EQ(e->status(), 403) << bad;  // DeepL's; its package knows no 401
    EXPECT_TRUE(e->json()["message"].is_string());
    EXPECT_EQ(s.ask("GET", "/v1/models", "", {{"authorization", bad}})->status(), 401) << bad;
  }
}

TEST(Translate, FieldsThatChangeNothingAndThoseThatWould) {
  FakeServer s;
  s.tokenizer.named = many();
  const char* const accepted[] = {R"("context": "c")",
                                  R"("split_sentences": "nonewlines")",
                                  R"("split_sentences": "0")",
                                  R"("preserve_formatting": true)",
                                  R"("formality": "default")",
                                  R"("formality": "prefer_less")",
                                  R"("outline_detection": false)",
                                  R"("model_type": "latency_optimized")",
                                  R"("glossary_id": null)",
                                  R"("ignore_tags": [])"};
  for (const char* field : accepted) {
    const size_t before = s.engine.requests.size();
    s.ask("POST", "/v2/translate", std::string(R"({"text": "a", )") + field + "}");
    EXPECT_EQ(s.engine.requests.size(), before + 1) << field;
  }
  const std::pair<const char*, const char*> refused[] = {
      {R"("formality": "more")", "formality"},
      {R"("formality": "rude")", "formality"},
      {R"("split_sentences": "2")", "split_sentences"},
      {R"("tag_handling": "text")", "tag_handling"},
      {R"("ignore_tags": ["a"])", "ignore_tags"},
      {R"("glossary_ids": ["a"])", "glossary_ids"},
      {R"("style_id": "a")", "style_id"},
      {R"("custom_instructions": ["a"])", "custom_instructions"},
      {R"("model_type": "best")", "model_type"},
      {R"("context": 5)", "context"}};
  for (const auto& [field, name] : refused) {
    const auto e = s.ask("POST", "/v2/translate", std::string(R"({"text": "a", )") + field + "}");
    EXPECT_EQ(e->status(), 400) << field;
    EXPECT_EQ(e->error_param(), name) << field;
  }
}

TEST(Translate, Forms) {
  FakeServer s;
  s.tokenizer.named = many();
  const server::Headers form = {{"content-type", "application/x-www-form-urlencoded; a=b"}};
  const auto e =
      s.ask("POST", "/v2/translate",
            "text=Hello%2C+w%C3%B6rld%21&text=5&target_lang=DE&source_lang=en&num_beams=2"
            "&show_billed_characters=1&preserve_formatting=0&&context=",
            form);
  ASSERT_EQ(s.engine.requests.size(), 2u) << e->json().dump();
  EXPECT_EQ(s.engine.requests[0].prompt.encoder().text(), "Hello, wörld!");
  EXPECT_EQ(s.engine.requests[1].prompt.encoder().text(), "5");
  EXPECT_EQ(s.engine.requests[1].options.tgt_lang(), "deu_Latn");
  EXPECT_EQ(s.engine.requests[1].options.num_beams(), 2);
  answer(s, 0, "A");
  answer(s, 1, "B");
  e->run_posted();
  EXPECT_EQ(e->json()["translations"][0]["billed_characters"], 13);
  EXPECT_EQ(s.ask("GET", "/v2/usage")->json()["character_count"], 14);
  const std::pair<const char*, const char*> wrong[] = {
      {"target_lang=DE", "text"},
      {"text=%ff", "text"},
      {"text=a&target_lang=DE&target_lang=EN", "target_lang"},
      {"text=a&formality=more", "formality"},
      {"text=a&show_billed_characters=x", "show_billed_characters"}};
  for (const auto& [body, name] : wrong) {
    const auto bad = s.ask("POST", "/v2/translate", body, form);
    EXPECT_EQ(bad->status(), 400) << body;
    EXPECT_EQ(bad->error_param(), name) << body;
  }
  // A page of another site sends such a form without asking before.
  server::Headers foreign = form;
  foreign.emplace_back("sec-fetch-site", "cross-site");
  EXPECT_EQ(s.ask("POST", "/v2/translate", "text=a", foreign)->status(), 400);
}

TEST(Translate, Languages) {
  FakeServer s;
  s.tokenizer.named = many();
  const auto codes = [&](const std::string& path) {
    std::vector<std::string> out;
    for (const json& one : s.ask("GET", path)->json()) {
      out.push_back(one["language"]);
      EXPECT_TRUE(one["name"].is_string());
      EXPECT_EQ(one.contains("supports_formality"), path != "/v2/languages");
    }
    return out;
  };
  const auto has = [](const std::vector<std::string>& all, const char* code) {
    return std::find(all.begin(), all.end(), code) != all.end();
  };
  s.ask("GET", "/v2/languages?type=source");
  const auto sources = codes("/v2/languages");
  EXPECT_TRUE(has(sources, "EN") && has(sources, "DE"));
  EXPECT_FALSE(has(sources, "EN-GB") || has(sources, "FR"));
}

}  // namespace
}  // namespace tandem
