// Damaged and unknown tokenizer files: errors that name the file and the key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "models/family.h"
#include "text/tokenizer_pipeline.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const json kDocument = json_from<json>(R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
     "normalized": false, "special": true},
    {"id": 9, "content": "new", "special": false}],
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
  "post_processor": {"type": "RobertaProcessing", "sep": ["</s>", 1], "cls": ["<s>", 0]},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"<s>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4, "aba": 5},
            "merges": ["a b", ["ab", "a"]]}
})");

struct Damage {
  const char* where;  // JSON pointer
  const char* value;  // JSON; empty: the key is removed
  std::vector<std::string> message;
  ErrorKind kind = ErrorKind::kInvalidModel;
};

void PrintTo(const Damage& damage, std::ostream* out) {
  *out << damage.where << " = " << damage.value;
}

constexpr ErrorKind kUnsupported = ErrorKind::kNotSupported;

const std::vector<Damage> kDamages = {
    {"/version", "\"2.0\"", {"version", "2.0"}, kUnsupported},
    {"/model", "", {"model: missing"}},
    {"/model", "[]", {"model: expected an object, found array"}},
    {"/model/type", "\"Other\"", {"model.type", "Other"}, kUnsupported},
    {"/model/type", "\"WordPiece\"", {"model.unk_token: missing"}},
    {"/model/type", "\"Unigram\"", {"model.vocab"}},
    {"/model/type", "7", {"model.type: expected a string"}},
    {"/model/vocab", "", {"model.vocab: missing"}},
    {"/model/vocab", "[\"a\"]", {"model.vocab: expected an object"}},
    {"/model/vocab/a", "-1", {"model.vocab.a", "-1"}},
    {"/model/vocab/a", "10000000", {"model.vocab.a", "10000000"}},
    {"/model/vocab/a", "99999999999999999999", {"model.vocab.a"}},
    {"/model/vocab/a", "2.5", {"model.vocab.a: expected a token id"}},
    {"/model/vocab/a", "\"2\"", {"model.vocab.a: expected a token id"}},
    {"/model/vocab/a", "3", {"model.vocab: id 3 has two tokens"}},
    {"/model/merges", "", {"model.merges: missing"}},
    {"/model/merges", "{}", {"model.merges: expected an array"}},
    {"/model/merges/0", "\"a c\"", {"model.merges[0]", "\"c\" is not in the vocabulary"}},
    {"/model/merges/0", "\"b b\"", {"model.merges[0]", "\"bb\" is not in the vocabulary"}},
    {"/model/merges/0", "\"ab\"", {"model.merges[0]", "two tokens"}},
    {"/model/merges/0", "\"a b c\"", {"model.merges[0]", "two tokens"}},
    {"/model/merges/1", "[\"a\"]", {"model.merges[1]", "two tokens"}},
    {"/model/merges/1", "[\"a\", 4]", {"model.merges[1][1]: expected a string"}},
    {"/model/merges/1", "null", {"model.merges[1]: expected an array"}},
    {"/model/dropout", "0.1", {"model.dropout"}, kUnsupported},
    {"/model/dropout", "\"\"", {"model.dropout: expected a number"}},
    {"/model/fuse_unk", "1", {"model.fuse_unk: expected true or false"}},
    {"/model/continuing_subword_prefix", "\"##\"", {"model.merges[0]", "shorter"}},
    {"/added_tokens", "{}", {"added_tokens: expected an array"}},
    {"/added_tokens/0/id", "", {"added_tokens[0].id: missing"}},
    {"/added_tokens/0/id", "-3", {"added_tokens[0].id", "-3"}},
    {"/added_tokens/0/id", "4294967295", {"added_tokens[0].id"}},
    {"/added_tokens/1/id", "0", {"added_tokens[1].id", "two tokens"}},
    {"/added_tokens/0/content", "", {"added_tokens[0].content: missing"}},
    {"/added_tokens/0/content", "3", {"added_tokens[0].content: expected a string"}},
    {"/added_tokens/0/lstrip", "\"yes\"", {"added_tokens[0].lstrip: expected true or false"}},
    {"/normalizer", R"({"type": "Other"})", {"normalizer.type", "Other"}, kUnsupported},
    {"/normalizer", R"({"type": "Precompiled"})", {"normalizer.precompiled_charsmap: missing"}},
    {"/normalizer",
     R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Other"}]})",
     {"normalizer.normalizers[1].type", "Other"},
     kUnsupported},
    {"/normalizer", "3", {"normalizer: expected an object"}},
    {"/pre_tokenizer", R"({"type": "Metaspace"})", {"pre_tokenizer.replacement: missing"}},
    {"/pre_tokenizer", R"({"type": "Digits"})", {"pre_tokenizer.individual_digits: missing"}},
    {"/pre_tokenizer", "{}", {"pre_tokenizer.type: missing"}},
    {"/pre_tokenizer/add_prefix_space", "", {"pre_tokenizer.add_prefix_space: missing"}},
    {"/pre_tokenizer/use_regex", "0", {"pre_tokenizer.use_regex: expected true or false"}},
    {"/pre_tokenizer",
     R"({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated", "invert": false})",
     {"pre_tokenizer.pattern.Regex", "not a regular expression"}},
    {"/pre_tokenizer",
     R"({"type": "Split", "pattern": {}, "behavior": "Isolated", "invert": false})",
     {"pre_tokenizer.pattern.Regex: missing"}},
    {"/pre_tokenizer",
     R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Cut"})",
     {"pre_tokenizer.behavior", "Cut"}},
    {"/post_processor", R"({"type": "Other"})", {"post_processor.type", "Other"}, kUnsupported},
    {"/post_processor/sep/1", "77", {"post_processor: token id 77 is not in the vocabulary"}},
    {"/post_processor/sep", "[1]", {"post_processor.sep"}},
    {"/post_processor/cls/1", "-5", {"post_processor.cls[1]", "-5"}},
    {"/post_processor",
     R"({"type": "TemplateProcessing", "pair": [], "special_tokens": {},
         "single": [{"SpecialToken": {"id": "<s>"}}]})",
     {"post_processor.special_tokens.<s>: missing"}},
    {"/post_processor",
     R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B"}}], "pair": []})",
     {"post_processor.single[0].Sequence", "no sequence B"}},
    {"/decoder", R"({"type": "Other"})", {"decoder.type", "Other"}, kUnsupported},
    {"/decoder", R"({"type": "WordPiece"})", {"decoder.prefix: missing"}},
};

template <class Function>
InputError error_of(Function&& function) {
  try {
    function();
  } catch (const InputError& e) {
    return e;
  }
  return InputError(ErrorKind::kResource, "nothing was thrown");
}

InputError error_of_document(const json& document) {
  return error_of([&] { make_tokenizer(tokenizer_from_document(document, "DIR/tokenizer.json")); });
}

class DamagedDocument : public testing::TestWithParam<Damage> {};

INSTANTIATE_TEST_SUITE_P(TokenizerFiles, DamagedDocument, testing::ValuesIn(kDamages));

TEST_P(DamagedDocument, IsAnErrorThatNamesFileAndKey) {
  json document = kDocument;
  const json::json_pointer where(GetParam().where);
  if (*GetParam().value)
    document[where] = json_from<json>(GetParam().value);
  else
    document[where.parent_pointer()].erase(where.back());
  const InputError error = error_of_document(document);
  EXPECT_THAT(error.what(), HasSubstr("DIR/tokenizer.json: "));
  for (const std::string& part : GetParam().message) EXPECT_THAT(error.what(), HasSubstr(part));
  EXPECT_EQ(error.kind(), GetParam().kind);
  EXPECT_EQ(error.param(), "DIR/tokenizer.json");
}

TEST(TokenizerFiles, TheUndamagedDocumentIsRead) {
  const auto tokenizer = make_tokenizer(tokenizer_from_document(kDocument, "test"));
  EXPECT_EQ(tokenizer->encode("aba abnew<s>"), (std::vector<int32_t>{0, 5, 4, 6, 0, 1}));
  EXPECT_EQ(tokenizer->size(), 7);  // the library numbers "new" itself
}

TEST(TokenizerFiles, NestingAndSizesHaveLimits) {
  json nested = kDocument["pre_tokenizer"];
  for (int i = 0; i < 1000; ++i) nested = {{"type", "Sequence"}, {"pretokenizers", {nested}}};
  json document = kDocument;
  document["pre_tokenizer"] = nested;
  EXPECT_THAT(error_of_document(document).what(), HasSubstr("nested too deeply"));

  document = kDocument;
  const json a = {{"Sequence", {{"id", "A"}}}};
  document["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", std::vector<json>(1000, a)},
                                {"pair", json::array()}};
  EXPECT_THAT(error_of_document(document).what(), HasSubstr("post_processor.single: 1000 parts"));

  document = kDocument;
  document["added_tokens"][1]["content"] = std::string(5000, 'x');
  EXPECT_THAT(error_of_document(document).what(), HasSubstr("added_tokens[1].content: longer"));
}

// A key is more than its part before a NUL.
TEST(TokenizerFiles, KeysMayHaveNulBytes) {
  json document = kDocument;
  document["model"]["vocab"][std::string("a\0b", 3)] = "x";
  EXPECT_THAT(error_of_document(document).what(), HasSubstr("expected a token id, found string"));
}

// An expression that backtracks without end is an error, not a request that hangs.
TEST(TokenizerFiles, RunawayExpressionsStop) {
  json document = kDocument;
  document["pre_tokenizer"] = {{"type", "Split"},
                               {"pattern", {{"Regex", "(?:a|aa)*(?:a|b|ab)*[cd]"}}},
                               {"behavior", "Isolated"},
                               {"invert", false}};
  const auto tokenizer = make_tokenizer(tokenizer_from_document(document, "DIR/tokenizer.json"));
  const InputError error = error_of([&] { tokenizer->encode(std::string(5000, 'a') + "xd"); });
  EXPECT_THAT(error.what(), HasSubstr("takes too long"));
}

TEST(TokenizerFiles, AnUnknownTokenThatIsNoneIsAnErrorWhenItIsNeeded) {
  json document = kDocument;
  document["model"]["unk_token"] = "<unk>";
  const auto tokenizer = make_tokenizer(tokenizer_from_document(document, "DIR/tokenizer.json"));
  EXPECT_EQ(tokenizer->encode("ab", false), (std::vector<int32_t>{4}));
  EXPECT_THAT(error_of([&] { tokenizer->encode("x"); }).what(),
              AllOf(HasSubstr("DIR/tokenizer.json: model.unk_token"), HasSubstr("<unk>")));
}

class Directory : public testing::Test {
 protected:
  Directory() { fs::create_directory(path_); }
  ~Directory() override { fs::remove_all(path_); }

  void write(const char* file, const std::string& text) { std::ofstream(path_ / file) << text; }
  InputError error() {
    return error_of([&] { load_tokenizer(path_); });
  }

  const fs::path path_ =
      fs::temp_directory_path() / ("tandem_tokenizer_files_" + std::to_string(::getpid()));
};

TEST_F(Directory, WithoutATokenizer) {
  EXPECT_THAT(error().what(), AllOf(HasSubstr(path_.string()), HasSubstr("no tokenizer.json")));
  write("vocab.json", "{}");
  write("spiece.model", "");
  EXPECT_THAT(error().what(), HasSubstr("spiece.model: SentencePiece"));
  EXPECT_EQ(error().kind(), kUnsupported);
}

TEST_F(Directory, MalformedJsonIsNamedWithItsLine) {
  write("tokenizer.json", "{\n  \"model\": }");
  EXPECT_THAT(error().what(), AllOf(HasSubstr("tokenizer.json"), HasSubstr("line 2, column 12")));
  write("tokenizer.json", std::string(5'000'000, '['));  // a parser's stack is no bound
  EXPECT_THAT(error().what(), AllOf(HasSubstr("tokenizer.json"), HasSubstr("nested deeper")));
  write("tokenizer.json", kDocument.dump());
  write("special_tokens_map.json", "[]");
  EXPECT_THAT(error().what(), HasSubstr("special_tokens_map.json: expected an object"));
  write("special_tokens_map.json", R"({"mask_token": {"lstrip": true}})");
  EXPECT_THAT(error().what(), HasSubstr("special_tokens_map.json: mask_token.content: missing"));
  write("special_tokens_map.json", "{}");
  write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "a"}}})");
  EXPECT_THAT(error().what(), HasSubstr("tokenizer_config.json: added_tokens_decoder: \"x\""));
  write("tokenizer_config.json", R"({"model_max_length": "long"})");
  EXPECT_THAT(error().what(), HasSubstr("tokenizer_config.json: model_max_length"));
}

TEST_F(Directory, DamagedVocabularyAndMerges) {
  write("vocab.json", R"({"<s>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4})");
  write("merges.txt", "#version: 0.2\na b\r\n");
  EXPECT_EQ(load_tokenizer(path_)->encode("ab"), (std::vector<int32_t>{0, 4, 1}));
  write("merges.txt", "#version: 0.2\na b\n\n");
  EXPECT_THAT(error().what(), HasSubstr("merges.txt: line 3"));
  write("merges.txt", "a x\n");
  EXPECT_THAT(error().what(), AllOf(HasSubstr("merges.txt"), HasSubstr("\"x\" is not in")));
  write("merges.txt", "a b\n");
  write("vocab.json", R"({"a": 0, "b": 0, "ab": 1})");
  EXPECT_THAT(error().what(), AllOf(HasSubstr("vocab.json"), HasSubstr("id 0 has two tokens")));
  write("tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer"})");
  EXPECT_THAT(error().what(), HasSubstr("T5Tokenizer without a tokenizer.json"));
  EXPECT_EQ(error().kind(), kUnsupported);
}

// Of classes that look into the vocabulary themselves.
TEST_F(Directory, VocabulariesOfPiecesAreLists) {
  for (const char* name : {"MBart50Tokenizer", "PegasusTokenizer", "CamembertTokenizer",
                           "BigBirdTokenizer", "DebertaV2Tokenizer"}) {
    write("tokenizer_config.json", json{{"tokenizer_class", name}}.dump());
    json document = kDocument;
    document["model"] = {{"type", "Unigram"}, {"unk_id", 0}};
    write("tokenizer.json", document.dump());
    EXPECT_THAT(error().what(), HasSubstr("model.vocab: missing")) << name;
    document["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"c", 2}};
    write("tokenizer.json", document.dump());
    EXPECT_THAT(error().what(), HasSubstr("model.vocab: expected an array")) << name;
  }
}

// HuggingFace takes it for the tokenizer's pad_token, which is special.
TEST_F(Directory, TheTokenThatPadsIsSpecial) {
  json document = kDocument;
  document["padding"] = {{"pad_token", "[PAD]"}};
  write("tokenizer.json", document.dump());
  write("tokenizer_config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  const auto tokenizer = Tokenizer::load(path_, {});
  const auto id = tokenizer->token_to_id("[PAD]");
  ASSERT_TRUE(id);
  EXPECT_TRUE(tokenizer->is_special(*id));
}

TEST_F(Directory, OtherThingsThanFiles) {
  fs::create_directory(path_ / "tokenizer.json");
  EXPECT_THAT(error().what(), HasSubstr("tokenizer.json: not a file"));
}

}  // namespace
}  // namespace tandem
