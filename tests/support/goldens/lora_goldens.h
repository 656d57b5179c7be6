// Engines with the adapters of tests/data/lora, and HuggingFace's tokens with them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/engine/llm_engine.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::testing {

inline std::filesystem::path lora_dir(const std::string& base) {
  return std::filesystem::path(TANDEM_SOURCE_DIR) / "tests" / "data" / "lora" / base;
}

// With all adapters of the base, named after their folders.
inline EngineConfig lora_config(const std::string& base) {
  EngineConfig config = golden_config(base);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(lora_dir(base)))
    if (entry.is_directory()) names.insert(entry.path().filename().string());
  for (const std::string& name : names) {
    proto::AdapterModule& module = *config.mutable_adapters()->add_modules();
    module.set_name(name);
    module.set_path((lora_dir(base) / name).string());
  }
  return config;
}

inline nlohmann::json lora_cases(const std::string& base) {
  return load_json(lora_dir(base) / "golden.json")["cases"];
}

struct LoraResult {
  std::vector<std::vector<int>> ids;
  std::vector<double> logprobs;
  bool operator==(const LoraResult&) const = default;
};

inline void add_lora_case(LLMEngine& engine, const nlohmann::json& one, const std::string& id) {
  proto::GenerationOptions options = read_options(one["generation"]);
  if (one["adapter"].is_string()) options.set_lora(one["adapter"].get<std::string>());
  engine.add_request(
      id,
      read_prompt({{"encoder_prompt", {{"prompt_token_ids", one["encoder_ids"]}}},
                   {"decoder_prompt", {{"prompt_token_ids", one["decoder_prompt_ids"]}}}}),
      options);
}

// Until nothing is left to do.
inline std::map<std::string, LoraResult> finish_lora_cases(LLMEngine& engine) {
  std::map<std::string, LoraResult> out;
  for (int i = 0; i < 20000 && engine.has_unfinished_requests(); ++i) {
    for (const auto& answer : engine.step())
      for (const auto& output : answer.outputs()) {
        std::vector<int> ids(answer.inputs().prompt_token_ids().begin(),
                             answer.inputs().prompt_token_ids().end());
        ids.insert(ids.end(), output.token_ids().begin(), output.token_ids().end());
        out[answer.request_id()].ids.push_back(std::move(ids));
        out[answer.request_id()].logprobs.push_back(output.cumulative_logprob());
      }
    engine.check_integrity();
  }
  EXPECT_FALSE(engine.has_unfinished_requests());
  return out;
}

// What HuggingFace fills rows up with, and an end token twice, do not count.
inline std::vector<int> without_fill(std::vector<int> ids) {
  const auto fill = [](int id) { return id >= 0 && id <= 2; };
  while (ids.size() > 1 && fill(ids.back()) && fill(ids[ids.size() - 2])) ids.pop_back();
  return ids;
}

// All cases in one batch.
inline void expect_lora_goldens(const EngineConfig& config, const std::string& base) {
  LLMEngine engine(config);
  const nlohmann::json cases = lora_cases(base);
  for (const nlohmann::json& one : cases) add_lora_case(engine, one, one["name"]);
  const auto results = finish_lora_cases(engine);
  for (const nlohmann::json& one : cases) {
    const std::string name = one["name"];
    nlohmann::json sequences = one.value("sequences", nlohmann::json::array());
    if (sequences.empty()) sequences.push_back(one["output_ids"]);
    ASSERT_TRUE(results.contains(name)) << name;
    ASSERT_LE(sequences.size(), results.at(name).ids.size()) << name;
    for (size_t i = 0; i < sequences.size(); ++i)
      EXPECT_EQ(without_fill(results.at(name).ids[i]), without_fill(sequences[i]))
          << name << " " << i;
  }
}

}  // namespace tandem::testing
