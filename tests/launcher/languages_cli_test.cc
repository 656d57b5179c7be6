// Languages and tasks by the command line, on checkpoints that have them; and what is said of wrong
// checkpoints of their families.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/support/processes/command_line.h"

namespace tandem::languages_cli_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::golden_dir;
using testing::ProcessResult;
using testing::tandem;

ProcessResult generate(const std::string& golden, const std::vector<std::string>& flags,
                       const std::string& input = {}) {
  std::vector<std::string> args{"generate", "--model", golden_dir(golden).string(), "--dtype",
                                "float32"};
  args.insert(args.end(), flags.begin(), flags.end());
  return tandem(args, input);
}

std::string text_of(const ProcessResult& r) {
  EXPECT_EQ(r.status, 0) << r.err;
  return r.out;
}

void expect_error(const ProcessResult& r, const std::vector<std::string>& words, int status = 1) {
  EXPECT_EQ(r.status, status) << r.out;
  // (A line for a line: an empty one, or one that says the same as JSON.)
  if (r.out.find_first_not_of('\n') != std::string::npos) {
    EXPECT_TRUE(json_from<json>(r.out).contains("error")) << r.out;
  }
  for (const std::string& word : words) EXPECT_NE(r.err.find(word), std::string::npos) << r.err;
}

TEST(LanguagesCli, FlagsNameThem) {
  const json golden = testing::load_golden("mbart50-tiny");
  int cases = 0;
  for (const json& c : golden.at("cases")) {
    if (c.at("kind") != "lang" || c.contains("sequences")) continue;
    ++cases;
    const ProcessResult r = generate(
        "mbart50-tiny", {"--source-lang", c.at("src_lang").get<std::string>(), "--target-lang",
                         c.at("tgt_lang").get<std::string>(), "--num-beams", "1",
                         "--max-new-tokens", "20", c.at("text").get<std::string>()});
    EXPECT_EQ(text_of(r),
              c.at("output_text").at("skip_special_tokens_true").get<std::string>() + "\n");
  }
  EXPECT_EQ(cases, 2);
}

TEST(LanguagesCli, LinesNameThem) {
  const std::string line = json({{"id", 1},
                                 {"prompt", "a text"},
                                 {"params", {{"source_lang", "fr_XX"}, {"tgt_lang", "de_DE"}}}})
                               .dump();
  const ProcessResult by_line =
      generate("mbart50-tiny", {"--jsonl", "--target-lang", "ro_RO"}, line);
  const ProcessResult by_flags =
      generate("mbart50-tiny", {"--source-lang", "fr_XX", "--target-lang", "de_DE", "a text"});
  EXPECT_EQ(json_from<json>(text_of(by_line)).at("outputs")[0].at("text").get<std::string>() + "\n",
            text_of(by_flags));
}

TEST(LanguagesCli, UnknownNames) {
  expect_error(generate("mbart50-tiny", {"--target-lang", "Deutch", "x"}), {"tgt_lang", "de_DE"});
  expect_error(generate("mbart50-tiny", {"--source-lang", "frensh", "x"}), {"src_lang", "fr_XX"});
  expect_error(generate("bart-tiny", {"--target-lang", "en_XX", "x"}),
               {"tgt_lang", "this model has no languages"});
  expect_error(generate("t5-tiny", {"--task", "sumarization", "x"}), {"task", "summarization"});
}

TEST(LanguagesCli, ATask) {
  const std::vector<std::string> limit = {"--num-beams", "2", "--max-tokens", "8"};
  auto with = limit, without = limit;
  with.insert(with.end(), {"--task", "summarization", "--min-length", "0", "some text"});
  without.insert(without.end(), {"--length-penalty", "2", "--early-stopping", "true",
                                 "--no-repeat-ngram-size", "3", "summarize: some text"});
  EXPECT_EQ(text_of(generate("t5-tiny", with)), text_of(generate("t5-tiny", without)));
}

TEST(LanguagesCli, InspectListsThem) {
  const auto inspect = [](const char* golden) {
    return json_from<json>(text_of(tandem({"inspect", golden_dir(golden).string(), "--json"})));
  };
  const json mbart = inspect("mbart50-tiny");
  EXPECT_EQ(mbart.at("source_languages").size(), 52u);
  EXPECT_EQ(mbart.at("target_languages"), mbart.at("source_languages"));
  EXPECT_EQ(mbart.at("default_source_language"), "en_XX");
  const json marian = inspect("marian-tiny");
  EXPECT_EQ(marian.at("target_languages"), json::array({"deu", "fra", "ron"}));
  EXPECT_FALSE(marian.contains("source_languages"));
  const json t5 = inspect("t5-tiny");
  EXPECT_EQ(t5.at("tasks").at("summarization").at("prefix"), "summarize: ");
  EXPECT_FALSE(t5.contains("target_languages"));
  const std::string text = text_of(tandem({"inspect", golden_dir("marian-tiny").string()}));
  EXPECT_NE(text.find("3 of the target: deu fra ron"), std::string::npos) << text;
}

TEST(LanguagesCli, TokenizeInALanguage) {
  const std::string model = golden_dir("mbart50-tiny").string();
  const std::string by_flag =
      text_of(tandem({"tokenize", "--model", model, "--source-lang", "fr_XX", "a text"}));
  const std::string by_line = text_of(tandem({"tokenize", "--model", model, "--jsonl"},
                                             R"({"text": "a text", "source_lang": "fr_XX"})"));
  EXPECT_EQ(json_from<json>(by_flag), json_from<json>(by_line).at("ids"));
  EXPECT_NE(by_flag, text_of(tandem({"tokenize", "--model", model, "a text"})));
  const ProcessResult unknown =
      tandem({"tokenize", "--model", model, "--source-lang", "frensh", "a text"});
  expect_error(unknown, {"src_lang", "did you mean fr_XX?"});
}

TEST(LanguagesCli, ScoresAndEncodingsInALanguage) {
  const auto run = [](const char* command, const char* golden, std::vector<std::string> more,
                      const std::string& input = {}) {
    std::vector<std::string> args{command, "--model", golden_dir(golden).string(), "--dtype",
                                  "float32"};
    args.insert(args.end(), more.begin(), more.end());
    return tandem(args, input);
  };
  const std::string line = json({{"prompt", "a"},
                                 {"target", "b"},
                                 {"params", {{"src_lang", "fr_XX"}, {"target_lang", "de_DE"}}}})
                               .dump();
  const std::vector<std::string> flags = {"--source-lang", "fr_XX", "--target-lang", "de_DE"};
  auto jsonl = flags, plain = std::vector<std::string>{"--jsonl"};
  jsonl.push_back("--jsonl");
  const char* without = R"({"prompt": "a", "target": "b"})";
  const json by_flags = json_from<json>(text_of(run("score", "mbart50-tiny", jsonl, without)));
  json by_line = json_from<json>(text_of(run("score", "mbart50-tiny", plain, line)));
  EXPECT_EQ(by_flags, by_line);
  EXPECT_NE(by_flags, json_from<json>(text_of(run("score", "mbart50-tiny", plain, without))));
  expect_error(run("score", "mbart50-tiny", {"--target-lang", "Deutch", "a", "b"}),
               {"tgt_lang", "de_DE"});

  const auto encode = [&](const char* golden, std::vector<std::string> more) {
    return run("encode", golden, std::move(more));
  };
  const std::string french = text_of(encode("mbart50-tiny", {"--source-lang", "fr_XX", "a text"}));
  EXPECT_NE(french, text_of(encode("mbart50-tiny", {"a text"})));
  EXPECT_EQ(text_of(encode("marian-tiny", {"--target-lang", "fra", "a text"})),
            text_of(encode("marian-tiny", {">>fra<< a text"})));
  expect_error(encode("mbart50-tiny", {"--source-lang", "frensh", "x"}), {"src_lang", "fr_XX"});
  expect_error(encode("mbart50-tiny", {"--target-lang", "frensh", "x"}), {"tgt_lang", "fr_XX"});
}

// A file that is not there is named, whichever the family needs.
TEST(LanguagesCli, MissingFilesOfTokenizers) {
  const std::pair<const char*, const char*> cases[] = {{"marian-tiny", "source.spm"},
                                                       {"marian-tiny", "target.spm"},
                                                       {"marian-tiny", "vocab.json"},
                                                       {"plbart-tiny", "sentencepiece.bpe.model"}};
  const fs::path dir = fs::temp_directory_path() / ("tandem-languages-" + std::to_string(getpid()));
  for (const auto& [golden, missing] : cases) {
    fs::remove_all(dir);
    fs::copy(golden_dir(golden), dir);
    fs::permissions(dir, fs::perms::owner_all);
    fs::remove(dir / missing);
    for (const char* command : {"generate", "tokenize"})
      expect_error(tandem({command, "--model", dir.string(), "x"}),
                   {(dir / missing).string() + ": is missing"}, 2);
  }
  fs::remove_all(dir);
}

}  // namespace
}  // namespace tandem::languages_cli_test
