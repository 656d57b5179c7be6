// tandem summarize and tandem translate: texts, files, folders and patterns in, a text for each
// out.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/files/files.h"
#include "tests/support/processes/command_line.h"

namespace tandem {
namespace {

using test::read_file;
using test::TempDir;
using testing::ProcessResult;
using testing::tandem;
using Words = std::vector<std::string>;

const std::string kDemo = TANDEM_SOURCE_DIR "/examples/demo-model";
const std::string kT5 = TANDEM_SOURCE_DIR "/tests/data/goldens/t5-tiny";
const std::string kMbart50 = TANDEM_SOURCE_DIR "/tests/data/goldens/mbart50-tiny";

ProcessResult run(Words words, const std::string& input = "") { return tandem(words, input); }

TEST(DocumentsCli, ATextThatFitsIsWhatGenerateMakes) {
  const std::string text = "A tool to find duplicate files on a disk. It compares sizes.";
  const ProcessResult generated = run({"generate", kDemo, text});
  const ProcessResult summary = run({"summarize", kDemo, text});
  EXPECT_EQ(summary.status, 0) << summary.err;
  EXPECT_EQ(summary.out, generated.out);
  EXPECT_EQ(run({"summarize", kDemo, "-"}, text + "\n").out, generated.out);
}

TEST(DocumentsCli, ALongTextIsASummaryOfSummaries) {
  std::string text;
  for (int i = 0; i < 120; ++i) text += "Package number " + std::to_string(i) + " finds files. ";
  EXPECT_NE(run({"generate", kDemo, text}).status, 0);
  const ProcessResult r = run({"summarize", kDemo, text});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_NE(r.err.find("a summary of the summaries of its"), std::string::npos) << r.err;
  EXPECT_LT(r.out.size(), text.size() / 4);
  EXPECT_FALSE(r.out.empty());
}

TEST(DocumentsCli, FilesFoldersAndPatterns) {
  TempDir dir;
  dir.write("a.txt", "  One text is here.\n\n- And a line.\n");
  dir.write("b.md", "Another text.");
  dir.write("c.dat", "Not of a folder.");
  const std::string folder = dir.path().string();
  const Words base{"translate", kMbart50,    "--from",           "en", "--to", "German",
                   "--split",   "sentences", "--max-new-tokens", "8"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), base.begin(), base.end());
    return run(more);
  };
  const ProcessResult a = with({folder + "/a.txt"}), b = with({folder + "/b.md"});
  EXPECT_EQ(a.status, 0) << a.err;
  EXPECT_TRUE(a.out.starts_with("  ")) << "the layout stays";
  EXPECT_NE(a.out.find("\n\n"), std::string::npos);
  EXPECT_EQ(with({folder}).out, a.out + b.out);
  EXPECT_EQ(with({folder + "/*.txt", folder + "/b.md"}).out, a.out + b.out);

  const ProcessResult r = with({folder, "--output-dir", folder + "/out"});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(read_file(dir.path() / "out/a.German.txt"), a.out);
  EXPECT_EQ(read_file(dir.path() / "out/b.German.txt"), b.out);
}

TEST(DocumentsCli, TasksOfT5AreChosen) {
  const std::string text = "The weather is fine today. We are going out.";
  const Words tail{"--max-new-tokens", "6", "--min-length", "0", "--num-beams", "1"};
  Words by_hand{"generate", kT5, "--task", "summarization", text}, chosen{"summarize", kT5, text};
  by_hand.insert(by_hand.end(), tail.begin(), tail.end());
  chosen.insert(chosen.end(), tail.begin(), tail.end());
  const ProcessResult expected = run(by_hand), got = run(chosen);
  EXPECT_EQ(expected.status, 0) << expected.err;
  EXPECT_EQ(got.out, expected.out);
}

TEST(DocumentsCli, Errors) {
  TempDir dir;
  const std::string empty = dir.path().string();
  const std::pair<Words, const char*> cases[] = {
      {{"summarize", kDemo}, "TEXT"},
      {{"summarize", kDemo, "nothing.txt"}, "nothing.txt"},
      {{"summarize", kDemo, empty}, "no *.txt"},
      {{"summarize", kDemo, empty + "/*.txt"}, "no file matches"},
      {{"summarize", kDemo, "a text", "--output-dir", empty}, "--output-dir"},
      {{"translate", kMbart50, "a text", "--to", "xx"}, "tgt_lang"},
      {{"translate", kMbart50, "a text", "--to", "de", "--split", "words"}, "split"},
      {{"summarize", kDemo, "-", "-"}, "standard input"}};
  for (const auto& [words, part] : cases) {
    const ProcessResult r = run(words);
    EXPECT_NE(r.status, 0) << words.back();
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  }
}

}  // namespace
}  // namespace tandem
