// The tokenizer against HuggingFace's ids and texts: the goldens of the checkpoints, with tokenizer.json
// and without it.
#include "runtime/tokenizer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

namespace tandem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Ids = std::vector<int32_t>;

fs::path golden(const std::string& name) {
  return fs::path(TANDEM_SOURCE_DIR) / "tests/data/goldens" / name;
}

json read_json(const fs::path& file) {
  std::ifstream in(file);
  EXPECT_TRUE(in.good()) << file;
  return json::parse(in);
}

// A copy of a checkpoint's tokenizer files that a test may change.
class CopiedCheckpoint {
 public:
  explicit CopiedCheckpoint(const std::string& name)
      : path_(fs::temp_directory_path() /
              ("tandem_tokenizer_" + std::to_string(::getpid()) + "_" + std::to_string(++count_))) {
    fs::copy(golden(name), path_);
  }
  ~CopiedCheckpoint() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  static inline int count_ = 0;
  fs::path path_;
};

// Whisper's tokenizer class drops timestamps from what the library decodes; that is a matter of the
// Whisper model, not of the tokenizer here.
std::string without_timestamps(const std::string& text) {
  static const std::regex kTimestamp(R"(<\|\d+\.\d+\|>)");
  return std::regex_replace(text, kTimestamp, "");
}

void expect_cases(const Tokenizer& tokenizer, const json& cases) {
  const bool whisper = cases.at("class") == "WhisperTokenizer";
  const auto decode = [&](const Ids& ids, bool skip_special) {
    const std::string text = tokenizer.decode(ids, skip_special);
    return whisper ? without_timestamps(text) : text;
  };
  for (const json& c : cases.at("cases")) {
    const std::string text = c.at("text");
    SCOPED_TRACE(text);
    const Ids ids = c.at("ids"), plain = c.at("ids_no_special");
    EXPECT_EQ(tokenizer.encode(text), ids);
    EXPECT_EQ(tokenizer.encode(text, false), plain);
    EXPECT_EQ(decode(ids, false), c.at("decoded"));
    EXPECT_EQ(decode(ids, true), c.at("decoded_skip_special"));
    EXPECT_EQ(decode(plain, false), c.at("decoded_no_special"));
  }
  for (const json& c : cases.at("pairs"))
    EXPECT_EQ(tokenizer.encode_pair(std::string(c.at("text")), std::string(c.at("text_pair"))),
              c.at("ids").get<Ids>());
  for (const json& c : cases.at("decode_only")) {
    EXPECT_EQ(decode(c.at("ids"), false), c.at("decoded"));
    EXPECT_EQ(decode(c.at("ids"), true), c.at("decoded_skip_special"));
  }
}

class Goldens : public testing::TestWithParam<const char*> {};

TEST_P(Goldens, SameAsHuggingFace) {
  const auto tokenizer = Tokenizer::load(golden(GetParam()));
  expect_cases(*tokenizer, read_json(golden(GetParam()) / "tokenizer_cases.json"));
}

INSTANTIATE_TEST_SUITE_P(Tokenizer, Goldens,
                         testing::Values("bart-base-shape", "bart-model-only", "bart-odd-heads",
                                         "bart-pickle", "bart-sharded", "bart-tiny",
                                         "blenderbot-tiny", "whisper-tiny-rand"));

TEST_P(Goldens, SameWithoutTokenizerJson) {
  if (GetParam() == std::string("blenderbot-tiny"))
    GTEST_SKIP() << "HuggingFace adds no </s> then; BlenderbotWithoutTokenizerJson";
  const CopiedCheckpoint copy(GetParam());
  fs::remove(copy.path() / "tokenizer.json");
  const auto tokenizer = Tokenizer::load(copy.path());
  expect_cases(*tokenizer, read_json(golden(GetParam()) / "tokenizer_cases.json"));
}

}  // namespace
}  // namespace tandem
