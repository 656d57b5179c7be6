// tandem classify, answer and embed as their users meet them: HuggingFace's results.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/support/files/files.h"
#include "tests/support/files/json_lines.h"
#include "tests/support/processes/command_line.h"

namespace tandem::classify_cli_test {
namespace {

using nlohmann::json;
using testing::ProcessResult;
using testing::tandem;
using Words = std::vector<std::string>;

const std::filesystem::path kGoldens = test::test_root() / "tests/data/goldens";

// A command on a checkpoint; `input` is its --jsonl.
ProcessResult run(const char* command, const char* checkpoint, Words more,
                  const std::string& input = "") {
  Words all{command, (kGoldens / checkpoint).string(), "--dtype", "float32"};
  all.insert(all.end(), more.begin(), more.end());
  return tandem(all, input);
}

std::string jsonl(const std::vector<json>& lines) {
  std::string out;
  for (const json& line : lines) out += line.dump() + "\n";
  return out;
}

void expect_near(const json& got, const json& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i].get<double>(), want[i].get<double>(), 5e-4) << i;
}

TEST(ClassifyCli, JsonLines) {
  for (const Words& ranks :
       {Words{}, Words{"--tp", "2", "--distributed-executor-backend", "threads"}}) {
    const json golden = load_json(kGoldens / "bart-labels/golden.json").at("cases");
    std::vector<json> requests;
    for (const json& one : golden)
      requests.push_back({{"id", one["name"]}, {"prompt_token_ids", one["encoder_ids"]}});
    requests.push_back({{"id", "bad"}, {"txt", "x"}});
    Words flags{"--jsonl", "--input", "-"};
    flags.insert(flags.end(), ranks.begin(), ranks.end());
    const ProcessResult r = run("classify", "bart-labels", flags, jsonl(requests));
    EXPECT_EQ(r.status, 1) << r.err;
    const auto lines = test::json_lines(r.out);
    ASSERT_EQ(lines.size(), requests.size());
    for (size_t i = 0; i < golden.size(); ++i) {
      EXPECT_EQ(lines[i]["id"], golden[i]["name"]);
      expect_near(lines[i]["logits"], golden[i]["logits"]);
      expect_near(lines[i]["probs"], golden[i]["probs"]);
      EXPECT_EQ(lines[i]["label"], golden[i]["label"]);
    }
    EXPECT_EQ(lines.back()["error"]["param"], "txt");
  }
}

TEST(ClassifyCli, ForPeople) {
  const json golden = load_json(kGoldens / "bart-labels/golden.json").at("cases");
  const json& pair = golden[1];
  const ProcessResult r = run("classify", "bart-labels",
                              {pair["text"], "--text-pair", pair["text_pair"].get<std::string>()});
  ASSERT_EQ(r.status, 0) << r.err;
  std::istringstream in(r.out);
  std::string line;
  std::getline(in, line);
  EXPECT_EQ(line, pair["text"]);
  double score = 0;
  std::string label;
  in >> score >> label;
  EXPECT_EQ(label, pair["label"]);
  EXPECT_NEAR(score, pair["probs"].get<std::vector<double>>()[label == "neutral" ? 1 : 2], 6e-4);
}

// As for the commands of documents.
TEST(ClassifyCli, FilesFoldersAndPatterns) {
  test::TempDir dir;
  const std::string a = dir.write("a.txt", "The house is small.\n").string();
  const std::string b = dir.write("b.md", "The *garden* is large.\n").string();
  dir.write("c.dat", "Not of a folder.");
  const std::string folder = dir.path().string();
  const auto below = [](const std::string& heading, const ProcessResult& of_text) {
    return heading + of_text.out.substr(of_text.out.find('\n'));
  };
  for (const Words& flags : {Words{}, Words{"--labels", "house,garden"}}) {
    const auto with = [&](Words more) {
      more.insert(more.end(), flags.begin(), flags.end());
      return run("classify", "bart-labels", more);
    };
    const ProcessResult house = with({"The house is small."});
    const ProcessResult garden = with({"The garden is large."});
    ASSERT_EQ(house.status, 0) << house.err;
    const std::string both = below(a, house) + below(b, garden);
    EXPECT_EQ(with({a, b}).out, both);
    EXPECT_EQ(with({folder}).out, both);
    EXPECT_EQ(with({folder + "/*.txt", "The garden is large."}).out, below(a, house) + garden.out);

    const ProcessResult written = with({a, b, "--output-dir", folder + "/out"});
    EXPECT_EQ(written.status, 0) << written.err;
    EXPECT_EQ(written.out, "");
    EXPECT_EQ("\n" + test::read_file(dir.path() / "out/a.labels.txt"), below("", house));
    EXPECT_EQ("\n" + test::read_file(dir.path() / "out/b.labels.txt"), below("", garden));
  }
  // What is piped in is a text.
  const ProcessResult piped = run("classify", "bart-labels", {}, "The house is small.\n");
  EXPECT_EQ(piped.out, run("classify", "bart-labels", {"The house is small."}).out);
  const ProcessResult missing = run("classify", "bart-labels", {"none.txt"});
  EXPECT_EQ(missing.status, 2);
  EXPECT_NE(missing.err.find("none.txt\": there is no such file"), std::string::npos);
}

// The pipeline's labels, in its order, with its scores.
TEST(ClassifyCli, ZeroShotIsTransformers) {
  const json golden = load_json(kGoldens / "bart-labels/golden.json").at("zero_shot");
  for (const json& one : golden) {
    Words flags{"--jsonl", "--input", "-", "--labels"};
    std::string labels;
    for (const json& label : one["labels"]) labels += " " + label.get<std::string>() + ",";
    flags.push_back(labels);
    if (one.value("multi_label", false)) flags.push_back("--multi-label");
    if (one.contains("hypothesis_template")) {
      flags.push_back("--hypothesis-template");
      flags.push_back(one["hypothesis_template"]);
    }
    const ProcessResult r =
        run("classify", "bart-labels", flags, jsonl({{{"id", 1}, {"text", one["sequence"]}}}));
    ASSERT_EQ(r.status, 0) << r.err;
    const json line = test::json_lines(r.out).at(0);
    EXPECT_EQ(line["id"], 1);
    EXPECT_EQ(line["sequence"], one["sequence"]);
    EXPECT_EQ(line["labels"], one["expected"]["labels"]);
    expect_near(line["scores"], one["expected"]["scores"]);
  }
}

TEST(ClassifyCli, ZeroShotKeepsTheOrderOfTexts) {
  std::vector<json> requests;
  for (int i = 0; i < 30; ++i)
    requests.push_back({{"id", i}, {"text", std::string(static_cast<size_t>(i % 7) * 4, 'a')}});
  requests[11] = {{"id", 11}, {"prompt_token_ids", {5, 1}}};
  requests[12] = {{"id", 12}};
  const ProcessResult r =
      run("classify", "bart-labels", {"--jsonl", "--labels", "x,y,z", "--max-num-seqs", "2"},
          jsonl(requests));
  EXPECT_EQ(r.status, 1);
  const auto lines = test::json_lines(r.out);
  ASSERT_EQ(lines.size(), requests.size());
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(lines[static_cast<size_t>(i)]["id"], i);
    EXPECT_EQ(lines[static_cast<size_t>(i)].contains("error"), i == 11 || i == 12);
  }
}

TEST(ClassifyCli, AModelWithoutEntailmentWarns) {
  const ProcessResult r =
      run("classify", "t5-labels", {"--labels", "!,\"", "--hypothesis-template", "{} ", "#"});
  EXPECT_NE((r.err + r.out).find("no label of the model begins with \"entail\""), std::string::npos)
      << r.err;
}

TEST(ClassifyCli, WrongFlagsAreNamed) {
  const std::pair<Words, const char*> cases[] = {
      {{"--multi-label", "x"}, "--multi-label"},
      {{"--labels", " , ", "x"}, "labels"},
      {{"--labels", "", "x"}, "labels"},
      {{"--output-dir", "out", "--lines", "--input", "x"}, "--output-dir"},
      {{"--labels", "a", "--hypothesis-template", "none", "x"}, "hypothesis_template"},
      {{"--labels", "a", "--text-pair", "b", "x"}, "--text-pair"},
      {{"--jsonl", "--text-pair", "b"}, "--text-pair"},
      {{"--jsonl", "--lines"}, "--lines"},
      {{}, "TEXT"}};
  for (const auto& [flags, name] : cases) {
    const ProcessResult r = run("classify", "bart-labels", flags);
    EXPECT_EQ(r.status, 2) << name;
    EXPECT_NE(r.err.find(name), std::string::npos) << r.err;
  }
}

TEST(ClassifyCli, OtherTasksNameTheCommand) {
  ProcessResult r = run("generate", "bart-labels", {"a text"});
  EXPECT_NE(r.status, 0);
  EXPECT_NE(r.err.find("`tandem classify`"), std::string::npos) << r.err;
  r = run("classify", "bart-tiny", {"a text"});
  EXPECT_NE(r.status, 0);
  EXPECT_NE(r.err.find("`tandem generate`"), std::string::npos) << r.err;
}

TEST(AnswerCli, JsonLines) {
  const json golden = load_json(kGoldens / "bart-spans/golden.json").at("cases");
  std::vector<json> requests;
  for (const json& one : golden)
    requests.push_back({{"id", one["name"]}, {"prompt_token_ids", one["encoder_ids"]}});
  const ProcessResult r =
      run("answer", "bart-spans", {"--jsonl", "--max-num-batched-tokens", "5"}, jsonl(requests));
  EXPECT_EQ(r.status, 0) << r.err;
  const auto lines = test::json_lines(r.out);
  ASSERT_EQ(lines.size(), golden.size());
  for (size_t i = 0; i < golden.size(); ++i) {
    for (const char* key : {"start_logits", "end_logits"})
      expect_near(lines[i][key], golden[i][key]);
    EXPECT_EQ(lines[i]["best_span"], golden[i]["best_span"]);
  }
}

TEST(EmbedCli, JsonLines) {
  const json golden = load_json(kGoldens / "t5-states/golden.json").at("cases");
  std::vector<json> requests;
  for (const json& one : golden)
    requests.push_back({{"id", one["name"]}, {"prompt_token_ids", one["encoder_ids"]}});
  requests.push_back({{"id", "unit"},
                      {"prompt_token_ids", golden[0]["encoder_ids"]},
                      {"params", {{"normalize", true}}}});
  const ProcessResult r = run("embed", "t5-states", {"--jsonl"}, jsonl(requests));
  EXPECT_EQ(r.status, 0) << r.err;
  const auto lines = test::json_lines(r.out);
  ASSERT_EQ(lines.size(), requests.size());
  for (size_t i = 0; i < golden.size(); ++i)
    expect_near(lines[i]["embedding"], golden[i]["embedding"]);
  double squares = 0;
  for (const json& value : lines.back()["embedding"])
    squares += value.get<double>() * value.get<double>();
  EXPECT_NEAR(squares, 1, 1e-5);
}

}  // namespace
}  // namespace tandem::classify_cli_test
