// LibreTranslate's interface, without sockets and without an engine.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/network/fake_http.h"

namespace tandem::libretranslate_test {
namespace {

using nlohmann::json;
using test::FakeServer;
using Target = LanguageSet::Rule::Target;

void answer(FakeServer& s, size_t i, const std::vector<std::string>& texts) {
  proto::RequestChunk chunk;
  chunk.mutable_inputs()->add_encoder_prompt_token_ids(1);
  for (size_t k = 0; k < texts.size(); ++k) {
    proto::CompletionChunk& news = *chunk.add_outputs();
    news.set_index(static_cast<int>(k));
    news.set_text(texts[k]);
    news.add_token_ids(7);
    news.set_finish_reason("stop");
  }
  chunk.set_finished(true);
  s.engine.callbacks.at(s.engine.requests.at(i).id)(chunk);
}

LanguageSet many() {
  return LanguageSet({"", "", "", Target::kForcedBos},
                     {{"eng_Latn", 5}, {"deu_Latn", 6}, {"zho_Hans", 7}, {"zho_Hant", 8}},
                     /*has_source=*/true, "eng_Latn");
}

TEST(LibreTranslate, OneText) {
  FakeServer s;
  s.tokenizer.named = many();
  const auto e = s.ask("POST", "/translate", R"({"q": "a", "source": "en", "target": "de",
                                                 "format": "text", "api_key": ""})");
  ASSERT_EQ(s.engine.requests.size(), 1u);
  EXPECT_EQ(s.engine.requests[0].options.src_lang(), "eng_Latn");
  EXPECT_EQ(s.engine.requests[0].options.tgt_lang(), "deu_Latn");
  EXPECT_EQ(s.engine.requests[0].options.split(), "auto");
  answer(s, 0, {"A"});
  e->run_posted();
  EXPECT_EQ(e->json(), json({{"translatedText", "A"}}));
  EXPECT_EQ(s.context.prompts_under_way, 0);
}

// Clients of earlier LibreTranslates have them from its list of languages.
TEST(LibreTranslate, ItsOwnCodes) {
  FakeServer s;
  s.tokenizer.named = LanguageSet({"", "", "", Target::kForcedBos},
                                  {{"zho_Hans", 7}, {"zho_Hant", 8}, {"por_Latn", 9}},
                                  /*has_source=*/true, "por_Latn");
  const auto e = s.ask("POST", "/translate", R"({"q": "a", "source": "pb", "target": "zt"})");
  ASSERT_EQ(s.engine.requests.size(), 1u);
  EXPECT_EQ(s.engine.requests[0].options.src_lang(), "por_Latn");
  EXPECT_EQ(s.engine.requests[0].options.tgt_lang(), "zho_Hant");
  answer(s, 0, {"A"});
  e->run_posted();
}

// What curl -d makes of it.
TEST(LibreTranslate, JsonThatIsCalledAForm) {
  FakeServer s;
  s.tokenizer.named = many();
  for (const char* path : {"/translate", "/v2/translate"}) {
    const auto e = s.ask("POST", path, R"({"q": "a", "source": "en", "target": "de"})",
                         {{"content-type", "application/x-www-form-urlencoded"}});
    EXPECT_EQ(e->status(), 400);
    EXPECT_NE(e->json().dump().find("Content-Type: application/json"), std::string::npos)
        << e->json().dump();
  }
}

TEST(LibreTranslate, AListWithDetectionAndAlternatives) {
  FakeServer s;
  s.tokenizer.named = many();
  const auto e = s.ask("POST", "/translate",
                       R"({"q": ["Das Wetter ist heute schön.", "Wir gehen in den Park."],
                           "source": "auto", "target": "zh", "alternatives": 2})");
  ASSERT_EQ(s.engine.requests.size(), 2u);
  EXPECT_EQ(s.engine.requests[0].options.src_lang(), "deu_Latn");
  EXPECT_EQ(s.engine.requests[0].options.tgt_lang(), "zho_Hans");
  EXPECT_EQ(s.engine.requests[0].options.num_return_sequences(), 3);
  EXPECT_EQ(s.engine.requests[0].options.num_beams(), 4);
  answer(s, 1, {"D", "E", "F"});
  answer(s, 0, {"A", "B", "C"});
  e->run_posted();
  const json body = e->json();
  EXPECT_EQ(body["translatedText"], json::array({"A", "D"}));
  EXPECT_EQ(body["alternatives"], json::array({{"B", "C"}, {"E", "F"}}));
  ASSERT_EQ(body["detectedLanguage"].size(), 2u);
  EXPECT_EQ(body["detectedLanguage"][1]["language"], "de");
  EXPECT_GT(body["detectedLanguage"][1]["confidence"], 50);
}

TEST(LibreTranslate, Errors) {
  FakeServer s;
  s.tokenizer.named = many();
  const std::pair<const char*, const char*> cases[] = {
      {R"({"source": "en", "target": "de"})", "q"},
      {R"({"q": "a", "target": "de"})", "source"},
      {R"({"q": "a", "source": "en"})", "target"},
      {R"({"q": "a", "source": "xx", "target": "de"})", "source"},
      {R"({"q": "1 2 3", "source": "auto", "target": "de"})", "source"},
      {R"({"q": "a", "source": "en", "target": "de", "format": "pdf"})", "format"},
      {R"({"q": "a", "source": "en", "target": "de", "alternatives": 99})", "alternatives"},
      {R"({"q": 5, "source": "en", "target": "de"})", "q"}};
  for (const auto& [body, field] : cases) {
    SCOPED_TRACE(body);
    const auto e = s.ask("POST", "/translate", body);
    if (e->status() == 0) {  // the engine's to refuse
      EXPECT_EQ(std::string(field), "source");
      continue;
    }
    EXPECT_EQ(e->status(), 400);
    ASSERT_TRUE(e->json()["error"].is_string());
    EXPECT_NE(e->json()["error"].get<std::string>().find(field), std::string::npos)
        << e->json().dump();
  }
}

TEST(LibreTranslate, KeysOfHeadersAndBodies) {
  FakeServer s;
  s.config.api_keys = {"k"};
  s.tokenizer.named = many();
  EXPECT_EQ(s.ask("POST", "/translate", R"({"q": "a", "source": "en", "target": "de"})")->status(),
            403);
  EXPECT_EQ(s.ask("POST", "/detect", R"({"q": "a", "api_key": "x"})")->status(), 403);
  EXPECT_TRUE(s.engine.requests.empty());
  s.ask("POST", "/translate", R"({"q": "a", "source": "en", "target": "de", "api_key": "k"})");
  EXPECT_EQ(s.engine.requests.size(), 1u);
  EXPECT_EQ(s.ask("POST", "/detect", R"({"q": "a", "api_key": "k"})")->status(), 200);
  EXPECT_EQ(s.ask("GET", "/languages", "")->status(), 200);
}

TEST(LibreTranslate, LanguagesAndDetection) {
  FakeServer s;
  s.tokenizer.named = many();
  const json languages = s.ask("GET", "/languages", "")->json();
  ASSERT_EQ(languages.size(), 4u);
  std::map<std::string, std::string> names;
  for (const json& one : languages) {
    names[one["code"]] = one["name"];
    EXPECT_EQ(one["targets"].size(), 4u);
  }
  EXPECT_EQ(names.at("en"), "English");
  EXPECT_EQ(names.at("de"), "German");
  EXPECT_TRUE(names.contains("zh"));
  EXPECT_TRUE(names.contains("zh-Hant"));
  const json found =
      s.ask("POST", "/detect", R"({"q": "The weather is fine, and we go to the park."})")->json();
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0]["language"], "en");
  // Of a language that the model has not.
  EXPECT_EQ(s.ask("POST", "/detect", R"({"q": "Il fait beau et nous allons au parc."})")->json(),
            json::array());
  EXPECT_EQ(s.ask("GET", "/frontend/settings", "")->json()["keyRequired"], false);
}

TEST(LibreTranslate, AModelOfOneSource) {  // opus-mt-en-roa
  using Target = LanguageSet::Rule::Target;
  FakeServer s;
  s.tokenizer.named = LanguageSet({">>", "<<", "", Target::kSourcePrefix},
                                  {{">>fra<<", 5}, {">>ron<<", 6}}, false, "");
  s.context.fixed_languages = {.source = "en"};
  const json targets = {"fr", "ro"};
  const json english = {{"code", "en"}, {"name", "English"}, {"targets", targets}};
  const json languages = s.ask("GET", "/languages", "")->json();
  ASSERT_EQ(languages.size(), 3u);
  EXPECT_EQ(languages[0], english);
  EXPECT_EQ(languages[1]["targets"], json::array());
  EXPECT_EQ(s.ask("GET", "/v1/models")->json()["data"][0]["source_language"], "en");
  const json sources = s.ask("GET", "/v2/languages?type=source")->json();
  EXPECT_EQ(sources, json::array({{{"language", "EN"}, {"name", "English"}}}));
  EXPECT_EQ(s.ask("GET", "/v2/languages?type=target")->json().size(), 2u);
  EXPECT_EQ(s.ask("POST", "/detect", R"({"q": "We go to the park."})")->json()[0]["language"],
            "en");

  const auto e = s.ask("POST", "/translate",
                       R"({"q": "We go to the park.", "source": "auto", "target": "fr"})");
  answer(s, 0, {"A"});
  e->run_posted();
  EXPECT_EQ(e->json()["detectedLanguage"]["language"], "en");
  EXPECT_FALSE(s.engine.requests[0].options.has_src_lang());
  EXPECT_EQ(s.engine.requests[0].options.tgt_lang(), "fra");
  s.ask("POST", "/translate", R"({"q": "We go.", "source": "en", "target": "ro"})");
  EXPECT_EQ(s.engine.requests[1].options.tgt_lang(), "ron");
  const auto bad = s.ask("POST", "/translate", R"({"q": "We", "source": "de", "target": "ro"})");
  EXPECT_EQ(bad->status(), 400);
  EXPECT_EQ(bad->json()["error"], "source: \"de\": the model translates from en");
}

TEST(LibreTranslate, AModelOfOnePair) {
  FakeServer s;
  s.context.fixed_languages = {"en", "de"};
  const json languages = s.ask("GET", "/languages", "")->json();
  ASSERT_EQ(languages.size(), 2u);
  EXPECT_EQ(languages[0]["targets"], json::array({"de"}));
  EXPECT_EQ(languages[1], json({{"code", "de"}, {"name", "German"}, {"targets", json::array()}}));
  s.context.fixed_languages = {.target = "en"};  // of many sources: any text may be one
  EXPECT_EQ(s.ask("GET", "/languages", "")->json()[0]["targets"], json::array({"en"}));
}

// opus-mt-mul-en: whatever the text is in, and whoever must say so.
TEST(LibreTranslate, AModelOfAnySource) {
  FakeServer s;
  s.context.fixed_languages = {.target = "en"};
  const auto e = s.ask("POST", "/translate", R"({"q": "A", "source": "fr", "target": "en"})");
  answer(s, 0, {"B"});
  e->run_posted();
  EXPECT_EQ(e->json()["translatedText"], "B");
  EXPECT_FALSE(s.engine.requests[0].options.has_src_lang());
  const auto deepl = s.ask("POST", "/v2/translate",
                           R"({"text": ["A"], "source_lang": "FR", "target_lang": "EN-US"})");
  answer(s, 1, {"B"});
  deepl->run_posted();
  EXPECT_EQ(deepl->json()["translations"][0]["detected_source_language"], "FR");
  // A model that does not translate has no languages.
  s.context.fixed_languages = {};
  s.ask("POST", "/v2/translate", R"({"text": ["A"], "source_lang": "FR"})");
  EXPECT_EQ(s.engine.requests.at(2).options.src_lang(), "FR") << "the engine refuses it";
}

TEST(LibreTranslate, AModelWhosePairsAreTasks) {  // T5
  FakeServer s;
  s.context.tasks = {"summarization", "translation_en_to_de", "translation_en_to_fr",
                     "translation"};
  s.context.fixed_languages = server::languages_of_tasks(s.context.tasks);
  const json languages = s.ask("GET", "/languages", "")->json();
  ASSERT_EQ(languages.size(), 3u);
  EXPECT_EQ(languages[0], json({{"code", "en"}, {"name", "English"}, {"targets", {"de", "fr"}}}));
  EXPECT_EQ(languages[1], json({{"code", "de"}, {"name", "German"}, {"targets", json::array()}}));
  const auto names = [&](const char* type) {
    std::string out;
    for (const json& one : s.ask("GET", std::string("/v2/languages?type=") + type)->json())
      out += one["language"].get<std::string>() + " ";
    return out;
  };
  EXPECT_EQ(names("source"), "EN ");
  EXPECT_EQ(names("target"), "DE FR ");
  for (const char* source : {"en", "auto"}) {
    s.ask("POST", "/translate",
          json{{"q", "We go to the park."}, {"source", source}, {"target", "fr"}}.dump());
    const auto& options = s.engine.requests.back().options;
    EXPECT_EQ(options.task(), "translation_en_to_fr");
    EXPECT_FALSE(options.has_src_lang() || options.has_tgt_lang());
  }
  const auto e = s.ask("POST", "/v2/translate", R"({"text": ["A"], "target_lang": "DE"})");
  EXPECT_EQ(s.engine.requests.back().options.task(), "translation_en_to_de");
  answer(s, s.engine.requests.size() - 1, {"B"});
  e->run_posted();
  EXPECT_EQ(e->json()["translations"][0]["detected_source_language"], "EN");
  // Who names a task needs no language.
  s.ask("POST", "/v2/translate", R"({"text": ["A"], "task": "summarization"})");
  EXPECT_EQ(s.engine.requests.back().options.task(), "summarization");

  const auto bad = s.ask("POST", "/translate", R"({"q": "A", "source": "en", "target": "es"})");
  EXPECT_EQ(bad->json()["error"],
            "target: \"es\" is none of them; the model translates from en to de, en to fr");
  const auto from = s.ask("POST", "/translate", R"({"q": "A", "source": "de", "target": "fr"})");
  EXPECT_EQ(from->json()["error"], "source: \"de\": the model translates from en");
  const auto none = s.ask("POST", "/v2/translate", R"({"text": ["A"]})");
  EXPECT_EQ(none->status(), 400);
  EXPECT_EQ(none->error_param(), "target_lang");
}

TEST(LibreTranslate, TasksOfSeveralSources) {
  FakeServer s;
  s.context.fixed_languages =
      server::languages_of_tasks({"translation_en_to_de", "translation_de_to_en", "translation_x"});
  EXPECT_EQ(s.context.fixed_languages.source, "");
  s.ask("POST", "/v2/translate", R"({"text": ["A"], "target_lang": "EN-GB"})");
  EXPECT_EQ(s.engine.requests.back().options.task(), "translation_de_to_en");
  s.ask("POST", "/v2/translate",
        R"({"text": ["A"], "source_lang": "EN", "target_lang": "German"})");
  EXPECT_EQ(s.engine.requests.back().options.task(), "translation_en_to_de");
}

}  // namespace
}  // namespace tandem::libretranslate_test
