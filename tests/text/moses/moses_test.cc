// Moses' words, and texts of words, against HuggingFace's (scripts/goldens/make_moses_cases.py).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "models/family.h"
#include "tests/support/files/files.h"
#include "text/moses/moses_normalizer.h"
#include "text/moses/moses_stream.h"
#include "text/moses/moses_tokenizer.h"
#include "text/tokenizer.h"

namespace tandem {
namespace {

using nlohmann::json;

json cases_of(const char* key) {
  return load_json(test::test_root() / "tests/data/tokenizers/moses.json").at(key);
}

TEST(Moses, Words) {
  for (const json& c : cases_of("cases")) {
    const std::string language = c.at("language"), text = c.at("text");
    EXPECT_EQ(json(moses::tokenize(moses::normalize(text, language), language)), c.at("words"))
        << language << ": " << c.at("text");
  }
}

// What was given never changes, so the parts make the text.
TEST(Moses, TextsOfPieces) {
  for (const json& c : cases_of("decoded")) {
    const std::string language = c.at("language");
    moses::MosesStream stream(language);
    std::string text;
    for (const std::string piece : c.at("pieces")) text += stream.append(piece);
    EXPECT_EQ(text + stream.finish(), c.at("text_of")) << language << ": " << c.at("pieces");
  }
}

// Files of the smallest kind: two vocabularies, merges with a third column, one that makes a piece
// that no vocabulary has, and a last line that does not end.
class MosesFilesTest : public ::testing::Test {
 protected:
  MosesFilesTest() {
    write("vocab-src.json", R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "a": 4, "ab</w>": 5,
                                "b</w>": 6, "&amp;</w>": 7, "c</w>": 8})");
    write("vocab-tgt.json", R"({"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "x</w>": 4, "y": 5})");
    write("merges.txt",
          "a b</w> 9\nb c</w> 8\n& amp;</w> 7\np ;</w>\nm p;</w>\na mp;</w>\na c</w>");
    settings(R"("langs": ["en", "de"])");
  }
  void write(const std::string& name, const std::string& text) { dir_.write(name, text); }
  void settings(const std::string& more) {
    write("tokenizer_config.json", R"({"tokenizer_class": "FSMTTokenizer", )" + more + "}");
  }
  std::string error() {
    try {
      load_tokenizer(dir_.path());
    } catch (const InputError& e) {
      return e.what();
    }
    return {};
  }
  test::TempDir dir_;
};

TEST_F(MosesFilesTest, TwoVocabularies) {
  const auto tokenizer = load_tokenizer(dir_.path());
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(tokenizer->encode("ab b"), (Ids{5, 6, 2}));
  EXPECT_EQ(tokenizer->encode("bc ac &", false), (Ids{3, 4, 8, 7}));  // "bc</w>" is no piece
  EXPECT_EQ(tokenizer->encode_pair("ab", "b"), (Ids{5, 2, 6, 2}));
  EXPECT_EQ(tokenizer->decode({5, 4, 4, 2}, true), "yx x");
  EXPECT_EQ(tokenizer->decode({4, 8}, true), "x <unk>");  // of the target's, which has none such
}

TEST_F(MosesFilesTest, WhatIsNotReadIsNamed) {
  settings(R"("do_lower_case": false)");
  EXPECT_NE(error().find("langs"), std::string::npos) << error();
  settings(R"("langs": ["en"])");
  EXPECT_NE(error().find("langs"), std::string::npos) << error();
  settings(R"("langs": ["fi", "en"])");
  EXPECT_NE(error().find("\"fi\""), std::string::npos) << error();
  settings(R"("langs": ["en", "fr"])");
  EXPECT_NE(error().find("\"fr\""), std::string::npos) << error();
  settings(R"("langs": ["en", "de"])");
  write("merges.txt", "a b\nc\n");
  EXPECT_NE(error().find("line 2"), std::string::npos) << error();
}

}  // namespace
}  // namespace tandem
