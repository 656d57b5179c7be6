// Answers of checkpoints of pages (tests/data/image-models), from tokens to what they say.
#include "runtime/request/answer_reader.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "models/family.h"
#include "tests/support/files/files.h"

namespace tandem::answer_reader_test {
namespace {

struct Model {
  explicit Model(const std::string& name)
      : folder(test::test_root() / "tests/data/image-models" / name),
        config(ModelConfig::load(folder)),
        tokenizer(load_tokenizer(folder)),
        reader(config, *tokenizer) {}

  nlohmann::ordered_json read(const std::string& prompt, const std::string& text) const {
    const std::vector<int32_t> before = tokenizer->encode(prompt, false);
    std::vector<int32_t> ids = tokenizer->encode(text, false);
    ids.push_back(config.eos_token_id.front());
    return reader.read(reader.question(image_prompt()), before, ids);
  }
  static proto::Prompt image_prompt() {
    proto::Prompt out;
    out.mutable_encoder()->set_image("a file");
    return out;
  }

  std::filesystem::path folder;
  ModelConfig config;
  std::unique_ptr<Tokenizer> tokenizer;
  AnswerReader reader;
};

TEST(AnswerReader, TagsAreJson) {
  const Model model("donut-tiny");
  EXPECT_TRUE(model.reader.has_forms());
  EXPECT_EQ(model.read("<s_cord>", "<s_menu>1<sep/>2</s_menu><s_total>3</s_total>").dump(),
            R"({"menu":["1","2"],"total":"3"})");
  // A question is part of what is read.
  EXPECT_EQ(model.read("<s_cord><s_menu>1</s_menu><s_total>", "3</s_total>").dump(),
            R"({"menu":"1","total":"3"})");
}

TEST(AnswerReader, PagesAreMarkdown) {
  const Model model("nougat-tiny");
  const nlohmann::ordered_json page = model.read("", "# 1\n\n\n\nA.");
  ASSERT_TRUE(page.is_string());
  EXPECT_EQ(page.get<std::string>(), "\nA.\n\n ");
}

TEST(AnswerReader, OthersAnswerInTexts) {
  const Model model("blip-tiny");
  EXPECT_FALSE(model.reader.has_forms());
  EXPECT_FALSE(model.reader.question(Model::image_prompt()).has_form());
  EXPECT_TRUE(model.read("", "a").is_null());
}

TEST(AnswerReader, WithoutAnImageThereIsNoForm) {
  const Model model("donut-tiny");
  proto::Prompt text;
  text.mutable_encoder()->set_text("a text");
  EXPECT_FALSE(model.reader.question(text).has_form());
}

TEST(AnswerReader, AnAnswerThatIsTooLongIsNull) {
  const Model model("donut-tiny");
  const std::vector<int32_t> many(1 << 17, 5);
  EXPECT_TRUE(model.reader.read(model.reader.question(Model::image_prompt()), {}, many).is_null());
}

}  // namespace
}  // namespace tandem::answer_reader_test
