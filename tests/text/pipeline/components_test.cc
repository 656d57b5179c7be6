// Every component of tokenizer.json, and each of its fields, against the answers of the
// `tokenizers` library (tests/data/tokenizers/components.json, made by
// scripts/goldens/make_tokenizer_components.py).
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "text/pipeline/text_pipeline.h"
#include "text/pipeline/text_splitter.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_pipeline.h"

namespace tandem::components_test {
namespace {

using nlohmann::json;

const json& golden() {
  static const json file = json_from<json>(read_text_file(std::filesystem::path(TANDEM_SOURCE_DIR) /
                                                          "tests/data/tokenizers/components.json"));
  return file;
}

// Calls check(component, answers) for each pair of the list.
template <class Check>
void each_component(const char* list, const Check& check) {
  ASSERT_FALSE(golden().at(list).empty());
  for (const json& entry : golden().at(list)) {
    SCOPED_TRACE(entry[0].dump().substr(0, 400));
    check(JsonView(entry[0], "components.json"), entry[1]);
  }
}

json words_of(const TextSplitter& splitter, const std::string& text) {
  json words = json::array();
  GrowthBudget budget("components.json", text.size());
  splitter.split(text, budget,
                 {[&](std::string_view word) { words.push_back(word); },
                  [](int32_t token) { ADD_FAILURE() << token; }});
  return words;
}

TEST(Components, Normalizers) {
  each_component("normalizers", [](const JsonView& component, const json& answers) {
    const auto normalizer = make_normalizer(component);
    for (size_t i = 0; i < answers.size(); ++i) {
      const std::string text = golden()["texts"][i];
      GrowthBudget budget("components.json", text.size());
      EXPECT_EQ(normalizer->normalize(text, budget), answers[i]) << i;
    }
  });
}

TEST(Components, PreTokenizers) {
  each_component("pre_tokenizers", [](const JsonView& component, const json& answers) {
    const TextSplitter splitter(nullptr, make_pre_tokenizer(component));
    for (size_t i = 0; i < answers.size(); ++i) {
      if (golden()["texts"][i] == "") continue;  // is split by none
      EXPECT_EQ(words_of(splitter, golden()["texts"][i]), answers[i]) << i;
    }
  });
}

// A normalizer and a pre-tokenizer together. Where the library fails, words are the plain stages'.
TEST(Components, Splitters) {
  ASSERT_FALSE(golden().at("splitters").empty());
  for (const json& entry : golden().at("splitters")) {
    SCOPED_TRACE(entry[0].dump());
    const auto& [normalizer, pre_tokenizer] = std::pair(entry[0][0], entry[0][1]);
    const TextSplitter splitter(
        normalizer.is_null() ? nullptr : make_normalizer(JsonView(normalizer, "components.json")),
        pre_tokenizer.is_null() ? nullptr
                                : make_pre_tokenizer(JsonView(pre_tokenizer, "components.json")));
    for (size_t i = 0; i < entry[1].size(); ++i) {
      const json words = words_of(splitter, golden()["split_texts"][i]);
      if (!entry[1][i].is_null()) {
        EXPECT_EQ(words, entry[1][i]) << i;
      }
    }
  }
}

TEST(Components, Decoders) {
  each_component("decoders", [](const JsonView& component, const json& answers) {
    const auto decoder = make_decoder(component);
    for (size_t i = 0; i < answers.size(); ++i) {
      const auto stream = decoder->stream();
      if (!stream || answers[i].is_null()) continue;
      std::string text;
      for (const json& token : golden()["tokens"][i])
        text += stream->append(token.get<std::string>());
      EXPECT_EQ(text + stream->finish(), answers[i]) << i;
    }
  });
}

TEST(Components, Models) {
  each_component("models", [](const JsonView& component, const json& answers) {
    const auto model = make_token_model(component);
    for (size_t i = 0; i < answers.size(); ++i) {
      const auto encode = [&] {
        const std::string word = golden()["words"][i];
        std::vector<int32_t> ids;
        GrowthBudget budget("components.json", word.size());
        model->word_encoder(budget)->encode(word, ids);
        return json(ids);
      };
      if (answers[i].is_null())
        EXPECT_THROW(encode(), InputError) << i;
      else
        EXPECT_EQ(encode(), answers[i]) << i;
    }
  });
}

TEST(Components, PostProcessors) {
  each_component("post_processors", [](const JsonView& component, const json& answers) {
    const auto processor = make_post_processor(component);
    for (const bool add_special : {true, false}) {
      const size_t row = add_special ? 0 : 1;
      EXPECT_EQ(json(processor->process_pair({1, 2}, {2}, add_special)), answers[row]);
      EXPECT_EQ(json(processor->process({1, 2}, add_special)), answers[2 + row]);
    }
  });
}

TEST(Components, Documents) {
  each_component("documents", [](const JsonView& document, const json& answers) {
    const auto tokenizer = make_tokenizer(tokenizer_from_document(document.value(), "golden"));
    for (size_t i = 0; i < answers.size(); ++i) {
      const auto ids = tokenizer->encode(golden()["added_texts"][i].get<std::string>());
      if (answers[i].is_null()) continue;  // the library fails
      EXPECT_EQ(json(ids), answers[i][0]) << golden()["added_texts"][i];
      EXPECT_EQ(tokenizer->decode(ids, false), answers[i][1]) << i;
      EXPECT_EQ(tokenizer->decode(ids, true), answers[i][2]) << i;
    }
  });
}

}  // namespace
}  // namespace tandem::components_test
