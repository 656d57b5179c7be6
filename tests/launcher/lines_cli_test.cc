// --lines: one line for each line, whatever fails; and the other outputs in which a place stands
// for an input.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json.h"
#include "tests/support/files/files.h"
#include "tests/support/processes/command_line.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::kTiny;
using testing::ProcessResult;
using testing::tandem;
using Words = std::vector<std::string>;

Words lines_of(const std::string& text) {
  Words out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

// The second line is not UTF-8, the third is empty, the fourth too long for the model.
std::string input() { return "one text\r\n\xff\n\n" + std::string(3000, 'x') + "\nanother text"; }

TEST(Lines, GenerateWritesOneForEach) {
  const Words base{"generate", kTiny, "--max-new-tokens", "6"};
  const auto run = [&](Words more, const std::string& text) {
    more.insert(more.begin(), base.begin(), base.end());
    return tandem(more, text);
  };
  const Words alone = lines_of(run({"one text", "another text"}, "").out);
  ASSERT_EQ(alone.size(), 2u);
  const ProcessResult r = run({"--lines", "-"}, input());
  EXPECT_EQ(r.status, 1);
  EXPECT_EQ(lines_of(r.out), (Words{alone[0], "", "", "", alone[1]}));
  for (const char* text : {"text 2: ", "text 3: ", "text 4: "})
    EXPECT_NE(r.err.find(text), std::string::npos) << r.err;
  // Arguments stand for their lines, too.
  EXPECT_EQ(lines_of(run({"one text", "", "another text"}, "").out),
            (Words{alone[0], "", alone[1]}));
  EXPECT_EQ(run({"--lines", "-"}, "").status, 0);
  EXPECT_EQ(run({"--lines", "--jsonl"}, "").status, 2);
}

// Whatever the model writes stays on its line: here all that it may write are line ends and
// letters.
TEST(Lines, AnOutputIsOneLineHoweverManyItHas) {
  const json vocabulary = json::parse(std::ifstream(kTiny + "/vocab.json"));
  json allowed = json::array({2});
  for (const auto& [token, id] : vocabulary.items())
    if (token == "\xc4\x8a" || token == "\xc4\x89" || token == "a") allowed.push_back(id);
  ASSERT_EQ(allowed.size(), 4u);  // the end, \n, \t, a
  const Words base{
      "generate",     kTiny, "--lines",          "-",  "--do-sample",         "--seed",      "1",
      "--min-tokens", "30",  "--max-new-tokens", "40", "--allowed-token-ids", allowed.dump()};
  const std::string texts = "one\ntwo\nthree\n";
  const ProcessResult one = tandem(base, texts);
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_EQ(lines_of(one.out).size(), 3u) << one.out;
  Words several = base;
  several.insert(several.end(), {"--n", "3"});
  const ProcessResult three = tandem(several, texts);
  EXPECT_EQ(three.status, 0) << three.err;
  ASSERT_EQ(lines_of(three.out).size(), 3u) << three.out;
  for (const std::string& line : lines_of(three.out))
    EXPECT_EQ(std::count(line.begin(), line.end(), '\t'), 2) << line;
}

TEST(Lines, TokenizeWritesOneForEach) {
  const ProcessResult r = tandem({"tokenize", kTiny, "--lines", "-"}, "one\n\xff\n\ntwo\n");
  EXPECT_EQ(r.status, 1);
  const Words lines = lines_of(r.out);
  ASSERT_EQ(lines.size(), 4u) << r.out;
  EXPECT_EQ(lines[1], "");
  EXPECT_EQ(lines[2], "[0,2]");
  EXPECT_EQ(lines[3], lines_of(tandem({"tokenize", kTiny, "two"}).out)[0]);
  EXPECT_NE(r.err.find("text 2: "), std::string::npos);
}

// Where there is no place to keep, nothing is written for what failed.
TEST(Lines, TokenizeWritesNothingForATextThatFails) {
  for (const ProcessResult& r :
       {tandem({"tokenize", kTiny, "a\xff"}), tandem({"tokenize", kTiny, "-"}, "a\xff"),
        tandem({"tokenize", kTiny, "a", "--source-lang", "de"})}) {
    EXPECT_EQ(r.status, 1);
    EXPECT_EQ(r.out, "");
    EXPECT_NE(r.err.find("text 1: "), std::string::npos) << r.err;
  }
  const ProcessResult several = tandem({"tokenize", kTiny, "one", "a\xff", "two"});
  EXPECT_EQ(several.status, 1);
  const Words lines = lines_of(several.out);
  ASSERT_EQ(lines.size(), 3u) << several.out;
  EXPECT_EQ(lines[1], "");
  EXPECT_EQ(lines[2], lines_of(tandem({"tokenize", kTiny, "two"}).out)[0]);
}

TEST(Lines, EncodeWritesOneForEach) {
  const ProcessResult r = tandem({"encode", kTiny, "--lines", "-"}, "one\n\xff\n\ntwo\n");
  EXPECT_EQ(r.status, 1);
  const Words lines = lines_of(r.out);
  ASSERT_EQ(lines.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const json row = json_from<json>(lines[i]);
    EXPECT_EQ(row["id"], i);
    EXPECT_EQ(row.contains("error"), i == 1) << row.dump();
  }
  const ProcessResult jsonl = tandem({"encode", kTiny, "--jsonl"},
                                     "{\"id\": \"a\", \"prompt\": 5}\n{\"id\": \"b\", \"prompt\": "
                                     "\"text\"}\nno JSON\n");
  EXPECT_EQ(jsonl.status, 1);
  ASSERT_EQ(lines_of(jsonl.out).size(), 3u) << jsonl.out;
  EXPECT_EQ(json_from<json>(lines_of(jsonl.out)[0])["id"], "a");
  EXPECT_TRUE(json_from<json>(lines_of(jsonl.out)[1]).contains("embedding"));
  // A row of a matrix is one of NaNs.
  const ProcessResult npy =
      tandem({"encode", kTiny, "--lines", "-", "--format", "npy"}, "one\n\xff\ntwo\n");
  EXPECT_EQ(npy.status, 1);
  EXPECT_NE(npy.out.find("'shape': (3, 64)"), std::string::npos);
  std::vector<float> values(3 * 64);
  ASSERT_GE(npy.out.size(), values.size() * 4);
  std::memcpy(values.data(), npy.out.data() + npy.out.size() - values.size() * 4,
              values.size() * 4);
  EXPECT_FALSE(std::isnan(values[63]));
  EXPECT_TRUE(std::isnan(values[64]));
  EXPECT_TRUE(std::isnan(values[127]));
  EXPECT_FALSE(std::isnan(values[128]));
}

TEST(Lines, AnOutputThatCannotBeWrittenIsAnError) {
  for (const Words& command : {Words{"generate", kTiny, "text", "--max-new-tokens", "3"},
                               Words{"tokenize", kTiny, "text"}, Words{"inspect", kTiny}}) {
    std::string line = TANDEM_BINARY;
    for (const std::string& word : command) line += " '" + word + "'";
    const ProcessResult r = testing::run_process({"/bin/sh", "-c", line + " >/dev/full"}, "", 60);
    EXPECT_EQ(r.status, 1) << command[0];
    EXPECT_NE(r.err.find("standard output"), std::string::npos) << r.err;
  }
}

}  // namespace
}  // namespace tandem
