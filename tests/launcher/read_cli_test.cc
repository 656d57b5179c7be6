// tandem read, and images in JSONL, as their users meet them.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/support/files/files.h"
#include "tests/support/files/json_lines.h"
#include "tests/support/processes/command_line.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::ProcessResult;
using testing::tandem;

const std::filesystem::path kVision = test::test_root() / "tests/data/vision-tiny",
                            kPages = test::test_root() / "tests/data/image-models";

ProcessResult read(std::vector<std::string> arguments) {
  std::vector<std::string> all{"read", "--model", kVision.string(), "--dtype", "float32"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return tandem(all);
}

const std::vector<std::string> kFlags{"--format",    "json", "--max-new-tokens",       "24",
                                      "--num-beams", "1",    "--no-repeat-ngram-size", "2"};

TEST(ReadCli, ALineForEachFile) {
  const json golden = load_json(kVision / "golden.json");
  std::vector<std::string> arguments = kFlags;
  for (const json& one : golden) arguments.push_back((kVision / one["image"]).string());
  const ProcessResult r = read(arguments);
  EXPECT_EQ(r.status, 0) << r.err;
  const auto lines = test::json_lines(r.out);
  ASSERT_EQ(lines.size(), golden.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    std::vector<int> want = golden[i]["greedy"];
    want.erase(want.begin());  // what the decoder starts with
    EXPECT_EQ(lines[i]["token_ids"], want);
    EXPECT_EQ(lines[i]["file"], arguments[kFlags.size() + i]);
    EXPECT_FALSE(lines[i]["text"].get<std::string>().empty());
  }
}

TEST(ReadCli, AFileThatIsNoImageIsNamed) {
  std::vector<std::string> arguments = kFlags;
  arguments.push_back((kVision / "config.json").string());
  arguments.push_back((kVision / "image_0.png").string());
  arguments.push_back("/no/such/file.png");
  const ProcessResult r = read(arguments);
  EXPECT_EQ(r.status, 1);
  const auto lines = test::json_lines(r.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[0]["error"]["message"].get<std::string>().find("is no image"), std::string::npos);
  EXPECT_TRUE(lines[1].contains("text"));
  EXPECT_NE(lines[2]["error"]["message"].get<std::string>().find("/no/such/file.png"),
            std::string::npos);
}

TEST(ReadCli, WrongUsage) {
  EXPECT_EQ(read({}).status, 2);
  EXPECT_EQ(read({"--format", "xml", "a.png"}).status, 2);
  const ProcessResult text =
      tandem({"read", "--model", testing::kTiny, (kVision / "image_0.png").string()});
  EXPECT_EQ(text.status, 1);
  EXPECT_NE(text.err.find("reads no images"), std::string::npos) << text.err;
  EXPECT_NE(tandem({"encode", "--model", kVision.string(), "a"}).err.find("reads no texts"),
            std::string::npos);
}

// Of models of pages.
ProcessResult read_pages(const std::string& model, std::vector<std::string> arguments) {
  std::vector<std::string> all{
      "read", "--model", (kPages / model).string(), "--dtype", "float32", "--max-new-tokens", "6"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return tandem(all);
}

TEST(ReadCli, AnswersHaveTheModelsForm) {
  const std::string image = (kPages / "donut-tiny" / "image_0.png").string();
  const ProcessResult tags = read_pages("donut-tiny", {"--format", "json", image});
  ASSERT_EQ(tags.status, 0) << tags.err;
  EXPECT_TRUE(test::json_lines(tags.out)[0].at("parsed").is_object()) << tags.out;
  const ProcessResult wrong = read_pages("donut-tiny", {"--format", "markdown", image});
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NE(wrong.err.find("are not Markdown"), std::string::npos) << wrong.err;
  const ProcessResult page = read_pages("nougat-tiny", {"--format", "markdown", image});
  EXPECT_EQ(page.status, 0) << page.err;
  // The white space behind a page is the processor's.
  EXPECT_TRUE(page.out.ends_with(" \n") || page.out.ends_with("\n\n")) << page.out;
}

TEST(ReadCli, ADocumentIsReadPageByPage) {
  const auto documents = test::test_root() / "tests/data/documents";
  const std::string two = documents / "two.pdf", locked = documents / "locked.pdf";
  const ProcessResult r =
      read_pages("nougat-tiny", {"--format", "json", "--dpi", "40", two, locked, two});
  EXPECT_EQ(r.status, 1);
  const auto lines = test::json_lines(r.out);
  ASSERT_EQ(lines.size(), 5u) << r.out << r.err;
  for (const size_t line : {0, 1, 3, 4}) {
    EXPECT_EQ(lines[line]["file"], two);
    EXPECT_EQ(lines[line]["page"], line < 2 ? line + 1 : line - 2);
  }
  EXPECT_NE(lines[0]["token_ids"], json());
  EXPECT_NE(lines[2]["error"]["message"].get<std::string>().find("encrypted"), std::string::npos);
  const auto second = test::json_lines(
      read_pages("nougat-tiny", {"--format", "json", "--dpi", "40", "--pages", "2", two}).out);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0]["token_ids"], lines[1]["token_ids"]);
  EXPECT_EQ(read_pages("nougat-tiny", {"--pages", "2-1", two}).status, 2);
}

TEST(ReadCli, PathsInLinesAreTheCommandLines) {
  const json golden = load_json(kVision / "golden.json");
  const json image = {{"multi_modal_data", {{"image", (kVision / "image_0.png").string()}}}};
  const json params = {{"num_beams", 3}, {"max_new_tokens", 12}, {"no_repeat_ngram_size", 2}};
  const ProcessResult r =
      tandem({"generate", "--jsonl", "--model", kVision.string(), "--dtype", "float32"},
             json({{"prompt", image}, {"params", params}}).dump() + "\n");
  ASSERT_EQ(r.status, 0) << r.err;
  const json line = test::json_lines(r.out)[0];
  std::vector<int> ids = line["prompt_token_ids"];
  for (const int id : line["outputs"][0]["token_ids"]) ids.push_back(id);
  EXPECT_EQ(json(ids), golden[0]["beams"]);
}

}  // namespace
}  // namespace tandem
