// Runs the real binary, on a checkpoint that a test may damage.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/goldens/goldens.h"
#include "tests/support/processes/process.h"

namespace tandem::testing {

inline const std::string kTiny = golden_dir("bart-tiny").string();

inline ProcessResult tandem(std::vector<std::string> args, const std::string& input = {}) {
  args.insert(args.begin(), TANDEM_BINARY);
  return run_process(args, input);
}

// A copy of the tiny checkpoint.
class DamagedCheckpoint : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("tandem-cli-" + std::to_string(getpid()));
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
    for (const char* f :
         {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
          "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt"}) {
      std::filesystem::copy_file(std::filesystem::path(kTiny) / f, dir_ / f);
      std::filesystem::permissions(dir_ / f, std::filesystem::perms::owner_write,
                                   std::filesystem::perm_options::add);
    }
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  void write(const std::string& file, const std::string& text) {
    std::ofstream(dir_ / file, std::ios::binary) << text;
  }
  nlohmann::json read_json(const std::string& file) {
    return nlohmann::json::parse(std::ifstream(dir_ / file));
  }
  void edit_config(const std::string& key, const nlohmann::json& value) {
    nlohmann::json config = read_json("config.json");
    config[key] = value;
    write("config.json", config.dump());
  }
  // Exit status 2 (starting again does not mend it), nothing on standard output, and a message with
  // these words. Returns the message.
  std::string expect_error(const std::vector<std::string>& words) {
    const ProcessResult r = tandem({"generate", "--model", dir_.string(), "some text"});
    EXPECT_EQ(r.status, 2) << r.err;
    EXPECT_EQ(r.out, "");
    for (const std::string& word : words) EXPECT_NE(r.err.find(word), std::string::npos) << r.err;
    return r.err;
  }

  std::filesystem::path dir_;
};

}  // namespace tandem::testing
