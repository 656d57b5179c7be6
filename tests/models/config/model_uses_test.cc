// What a checkpoint is for: cards, tasks and pairs of languages, and files that tell nothing.
#include "models/config/model_uses.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "tests/support/files/files.h"

namespace tandem {
namespace {

using Names = std::vector<std::string>;

class Uses : public ::testing::Test {
 protected:
  void write(const char* name, const std::string& text) { folder_.write(name, text); }
  ModelUses uses(const char* config = "{}") {
    ModelConfig c;
    c.directory = folder_.path();
    c.raw = json_from<nlohmann::json>(config);
    return model_uses(c);
  }
  test::TempDir folder_;
};

TEST_F(Uses, NothingTellsNothing) {
  EXPECT_EQ(uses().pipelines, Names{});
  EXPECT_EQ(uses("[]").pipelines, Names{});
  EXPECT_EQ(uses().language_pair.first, "");
}

TEST_F(Uses, TasksOfTheConfig) {
  EXPECT_EQ(uses(R"({"task_specific_params": {"summarization_xsum": {}}})").pipelines,
            Names{"summarization"});
  EXPECT_EQ(uses(R"({"task_specific_params": {"translation_en_to_de": {}, "summarization": {},
                     "translation_en_to_fr": {}, "other": {}}})")
                .pipelines,
            (Names{"summarization", "translation"}));
}

TEST_F(Uses, TheCardComesFirst) {
  write("README.md",
        "---\r\nlanguage:\r\n- en\r\npipeline_tag: \"translation\"\r\n---\r\n# A model\r\n");
  EXPECT_EQ(uses(R"({"task_specific_params": {"summarization": {}}})").pipelines,
            (Names{"translation", "summarization"}));
  write("README.md", "---\ntags:\n- pytorch\n- summarization\n---\n");
  EXPECT_EQ(uses().pipelines, Names{"summarization"});
}

TEST_F(Uses, OnlyTheHeadOfACardCounts) {
  for (const char* card : {"# Title\npipeline_tag: translation\n", "---\n---\n- summarization\n",
                           "---\npipeline_tag: text-generation\n---\n", "---\npipeline_tag:\n---\n",
                           "", "---", "\n---\npipeline_tag: translation\n---\n"}) {
    write("README.md", card);
    EXPECT_EQ(uses().pipelines, Names{}) << card;
  }
  write("README.md", "---\n" + std::string(1 << 20, 'x') + "\npipeline_tag: translation\n---\n");
  EXPECT_EQ(uses().pipelines, Names{}) << "no more than its beginning is read";
}

TEST_F(Uses, APairOfLanguagesIsATranslator) {
  write("tokenizer_config.json", R"({"source_lang": "en", "target_lang": "de"})");
  EXPECT_EQ(uses().pipelines, Names{"translation"});
  EXPECT_EQ(uses().language_pair, (std::pair<std::string, std::string>{"en", "de"}));
  for (const char* config :
       {R"({"source_lang": "en"})", R"({"source_lang": "en", "target_lang": null})",
        R"({"source_lang": 1, "target_lang": "de"})", "[]", "{", ""}) {
    write("tokenizer_config.json", config);
    EXPECT_EQ(uses().pipelines, Names{}) << config;
    EXPECT_EQ(uses().language_pair.first, "") << config;
  }
}

}  // namespace
}  // namespace tandem
