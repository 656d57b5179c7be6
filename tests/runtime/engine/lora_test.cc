// LoRA adapters end to end: HuggingFace's tokens with those of tests/data/lora, whoever shares the
// batch, and the base's as without adapters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/engine/llm_engine.h"
#include "runtime/protocol/options_reader.h"
#include "runtime/protocol/prompt_reader.h"
#include "runtime/request/adapter_names.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem {
namespace {

using nlohmann::json;

std::filesystem::path lora_dir(const std::string& base) {
  return std::filesystem::path(TANDEM_SOURCE_DIR) / "tests" / "data" / "lora" / base;
}

EngineConfig lora_config(const std::string& base) {
  EngineConfig config = testing::golden_config(base);
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

struct LoraResult {
  std::vector<std::vector<int>> ids;
  std::vector<double> logprobs;
  bool operator==(const LoraResult&) const = default;
};

class Lora : public ::testing::TestWithParam<const char*> {
 protected:
  void add(LLMEngine& engine, const json& one, const std::string& id) {
    proto::GenerationOptions options = read_options(one["generation"]);
    if (one["adapter"].is_string()) options.set_lora(one["adapter"].get<std::string>());
    engine.add_request(
        id,
        read_prompt({{"encoder_prompt", {{"prompt_token_ids", one["encoder_ids"]}}},
                     {"decoder_prompt", {{"prompt_token_ids", one["decoder_prompt_ids"]}}}}),
        options);
  }
  std::map<std::string, LoraResult> finish(LLMEngine& engine) {
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

  const json golden_ = load_json(lora_dir(GetParam()) / "golden.json");
};

// What HuggingFace fills rows up with, and an end token twice, do not count.
std::vector<int> without_fill(std::vector<int> ids) {
  const auto fill = [](int id) { return id >= 0 && id <= 2; };
  while (ids.size() > 1 && fill(ids.back()) && fill(ids[ids.size() - 2])) ids.pop_back();
  return ids;
}

TEST_P(Lora, HuggingFacesTokensInOneBatch) {
  for (const int block_size : {1, 16}) {
    EngineConfig config = lora_config(GetParam());
    config.mutable_cache()->set_block_size(block_size);
    LLMEngine engine(config);
    for (const json& one : golden_["cases"]) add(engine, one, one["name"]);
    const auto results = finish(engine);
    for (const json& one : golden_["cases"]) {
      const std::string name = one["name"];
      json sequences = one.value("sequences", json::array());
      if (sequences.empty()) sequences.push_back(one["output_ids"]);
      ASSERT_LE(sequences.size(), results.at(name).ids.size()) << name;
      for (size_t i = 0; i < sequences.size(); ++i)
        EXPECT_EQ(without_fill(results.at(name).ids[i]), without_fill(sequences[i]))
            << name << " " << i;
    }
  }
}

// Alone, in a batch with all others, and with the same source asked of several adapters: the same
// bits. The base's results are those of an engine without adapters.
TEST_P(Lora, NobodyNoticesTheOthers) {
  LLMEngine engine(lora_config(GetParam())), plain(testing::golden_config(GetParam()));
  for (const json& one : golden_["cases"]) add(engine, one, one["name"]);
  const auto together = finish(engine);
  for (const json& one : golden_["cases"]) {
    const std::string name = one["name"];
    add(engine, one, name);
    EXPECT_TRUE(finish(engine).at(name) == together.at(name)) << name;
    if (!one["adapter"].is_null()) continue;
    add(plain, one, name);
    EXPECT_TRUE(finish(plain).at(name) == together.at(name)) << name;
  }
}

TEST_P(Lora, ASourceIsNotSharedBetweenAdapters) {
  LLMEngine engine(lora_config(GetParam()));
  std::set<std::vector<int>> different;
  json one = golden_["cases"][0];
  one["generation"] = {{"num_beams", 1}, {"do_sample", false}, {"max_new_tokens", 24}};
  std::vector<json> adapters{nullptr};
  for (const proto::Adapter& adapter : engine.processor().adapters().list())
    adapters.push_back(adapter.name());
  std::map<std::string, LoraResult> first;
  for (const int turn : {0, 1}) {
    for (const json& adapter : adapters) {
      one["adapter"] = adapter;
      add(engine, one, adapter.dump());
      const LoraResult result = finish(engine).at(adapter.dump());
      if (turn == 0) first[adapter.dump()] = result;
      EXPECT_TRUE(first.at(adapter.dump()) == result) << adapter;
      different.insert(result.ids.front());
    }
  }
  EXPECT_GT(different.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Bases, Lora, ::testing::Values("bart-tiny", "t5-tiny"),
                         [](const auto& info) {
                           return std::string(info.param).substr(0, 2) == "t5" ? "t5" : "bart";
                         });

TEST(LoraNames, AnUnknownOneIsTheRequestsError) {
  LLMEngine engine(lora_config("bart-tiny"));
  proto::GenerationOptions options;
  options.set_lora("qv-r5");
  try {
    engine.add_request("x", read_prompt("text"), options);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), "lora");
    EXPECT_THAT(error.what(), ::testing::HasSubstr("did you mean qv-r4"));
  }
  EXPECT_FALSE(engine.has_unfinished_requests());
}

// What a server does: adapters come and go, and a name may come back as another adapter.
TEST(LoraNames, AdaptersComeAndGo) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_adapters()->set_allow_runtime_lora_updating(true);
  config.mutable_adapters()->set_max_loras(1);
  LLMEngine engine(config);
  AdapterNames& names = engine.processor().adapters();
  const auto run = [&](const char* adapter) {
    proto::GenerationOptions options = read_options({{"num_beams", 1}, {"max_tokens", 16}});
    if (adapter != nullptr) options.set_lora(adapter);
    engine.add_request("x", read_prompt("A text."), options);
    for (;;)
      for (const auto& answer : engine.step()) {
        const auto& ids = answer.outputs(0).token_ids();
        return std::vector<int>(ids.begin(), ids.end());
      }
  };
  const std::vector<int> base = run(nullptr);
  EXPECT_THROW(run("a"), InputError);
  names.load("a", (lora_dir("bart-tiny") / "qv-r4").string());
  const std::vector<int> changed = run("a");
  EXPECT_NE(changed, base);
  EXPECT_THROW(names.load("a", (lora_dir("bart-tiny") / "qv-r4").string()), InputError);
  names.unload("a");
  EXPECT_THROW(run("a"), InputError);
  EXPECT_THROW(names.unload("a"), InputError);
  names.load("a", (lora_dir("bart-tiny") / "dora-r4").string());
  EXPECT_NE(run("a"), changed);
  names.load("b", (lora_dir("bart-tiny") / "qv-r4").string());
  EXPECT_EQ(run("b"), changed);
  EXPECT_EQ(run(nullptr), base);
  EXPECT_THROW(names.load("c", (lora_dir("t5-tiny") / "ffn-r4").string()), InputError);
  EXPECT_THROW(names.load("c", "/nowhere"), InputError);
}

TEST(LoraNames, NothingIsLoadedUnlessItIsAllowed) {
  LLMEngine engine(lora_config("bart-tiny"));
  try {
    engine.processor().adapters().load("x", (lora_dir("bart-tiny") / "qv-r4").string());
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotSupported);
  }
}

}  // namespace
}  // namespace tandem
