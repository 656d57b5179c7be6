// Languages and tasks over HTTP: what a model says it has, and how requests name them.
#include <gtest/gtest.h>

#include "tests/support/network/fake_http.h"

namespace tandem {
namespace {

using nlohmann::json;
using test::FakeServer;
using Target = LanguageSet::Rule::Target;

TEST(Languages, ModelsTellWhatTheyHave) {
  FakeServer s;
  const json plain = s.ask("GET", "/v1/models")->json()["data"][0];
  for (const char* name :
       {"source_languages", "target_languages", "default_source_language", "tasks"})
    EXPECT_FALSE(plain.contains(name)) << name;
  s.tokenizer.named = LanguageSet({"", "", "", Target::kForcedBos}, {{"en_XX", 5}, {"fr_XX", 6}},
                                  /*has_source=*/true, "en_XX");
  s.context.tasks = {"summarization"};
  const json one = s.ask("GET", "/v1/models/model")->json();
  EXPECT_EQ(one["source_languages"], json::array({"en_XX", "fr_XX"}));
  EXPECT_EQ(one["target_languages"], json::array({"en_XX", "fr_XX"}));
  EXPECT_EQ(one["default_source_language"], "en_XX");
  EXPECT_EQ(one["tasks"], json::array({"summarization"}));
  s.tokenizer.named =
      LanguageSet({">>", "<<", "", Target::kSourcePrefix}, {{">>fra<<", 5}}, false, "");
  const json prefix = s.ask("GET", "/v1/models")->json()["data"][0];
  EXPECT_FALSE(prefix.contains("source_languages"));
  EXPECT_EQ(prefix["target_languages"], json::array({"fra"}));
}

TEST(Languages, ModelsTellWhatTheyAreFor) {
  FakeServer s;
  const json plain = s.ask("GET", "/v1/models")->json()["data"][0];
  for (const char* name : {"pipelines", "language_pair"})
    EXPECT_FALSE(plain.contains(name)) << name;
  s.context.pipelines = {"translation"};
  s.context.fixed_languages = {"en", "de"};
  const json one = s.ask("GET", "/v1/models/model")->json();
  EXPECT_EQ(one["pipelines"], json::array({"translation"}));
  EXPECT_EQ(one["language_pair"], json::array({"en", "de"}));
}

TEST(Languages, GoToTheEngine) {
  FakeServer s;
  const std::string texts = R"("src_lang": "en_XX", "tgt_lang": "fr_XX", "task": "t"})";
  const std::string other = R"("source_lang": "en_XX", "target_lang": "fr_XX", "task": "t"})";
  for (const std::string& fields : {texts, other}) {
    s.ask("POST", "/v1/completions", R"({"prompt": "a", )" + fields);
    s.ask("POST", "/v1/chat/completions",
          R"({"messages": [{"role": "user", "content": "a"}], )" + fields);
    s.ask("POST", "/v1/target_scores", R"({"prompt": "a", "target": "b", )" + fields);
  }
  ASSERT_EQ(s.engine.requests.size(), 6u);
  for (const auto& request : s.engine.requests) {
    EXPECT_EQ(request.options.src_lang(), "en_XX");
    EXPECT_EQ(request.options.tgt_lang(), "fr_XX");
    EXPECT_EQ(request.options.task(), "t");
  }
  s.ask("POST", "/v1/embeddings", R"({"input": "a", "src_lang": "en_XX"})");
  EXPECT_EQ(s.engine.requests.back().options.src_lang(), "en_XX");
}

TEST(Languages, OfTokenizedTexts) {
  FakeServer s;
  for (const char* name : {"src_lang", "source_lang"}) {
    const auto e = s.ask("POST", "/tokenize", json({{"prompt", "a"}, {name, "fr_XX"}}).dump());
    EXPECT_EQ(e->status(), 400);  // this tokenizer has none
    EXPECT_EQ(e->error_param(), name);
  }
}

TEST(Languages, BadFields) {
  FakeServer s;
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt": "a", "src_lang": 5})", "src_lang"},
      {R"({"prompt": "a", "tgt_lang": ["fr_XX"]})", "tgt_lang"},
      {R"({"prompt": "a", "task": ""})", "task"},
      {R"({"prompt": "a", "target_lang": "fr_XX", "tgt_lang": "de_DE"})", "tgt_lang"}};
  for (const auto& [body, param] : cases) {
    const auto e = s.ask("POST", "/v1/completions", body);
    EXPECT_EQ(e->status(), 400) << body;
    EXPECT_EQ(e->error_param(), param) << body;
  }
  EXPECT_TRUE(s.engine.requests.empty());
  const auto e = s.ask("POST", "/tokenize", R"({"prompt": "a", "src_lang": "fr_XX"})");
  EXPECT_EQ(e->status(), 400);
  EXPECT_EQ(e->error_param(), "src_lang");
}

}  // namespace
}  // namespace tandem
