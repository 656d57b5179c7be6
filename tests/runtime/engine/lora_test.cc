// LoRA adapters end to end: HuggingFace's tokens with those of tests/data/lora, whoever shares the
// batch, and the base's as without adapters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "runtime/request/adapter_names.h"
#include "tests/support/goldens/lora_goldens.h"

namespace tandem {
namespace {

using nlohmann::json;

using testing::finish_lora_cases;
using testing::lora_config;
using testing::lora_dir;
using testing::LoraResult;

class Lora : public ::testing::TestWithParam<const char*> {
 protected:
  const json cases_ = testing::lora_cases(GetParam());
};

TEST_P(Lora, HuggingFacesTokensInOneBatch) {
  for (const int block_size : {1, 16}) {
    EngineConfig config = lora_config(GetParam());
    config.mutable_cache()->set_block_size(block_size);
    testing::expect_lora_goldens(config, GetParam());
  }
}

// Alone, in a batch with all others, and with the same source asked of several adapters: the same
// bits. The base's results are those of an engine without adapters.
TEST_P(Lora, NobodyNoticesTheOthers) {
  LLMEngine engine(lora_config(GetParam())), plain(testing::golden_config(GetParam()));
  for (const json& one : cases_) testing::add_lora_case(engine, one, one["name"]);
  const auto together = finish_lora_cases(engine);
  for (const json& one : cases_) {
    const std::string name = one["name"];
    testing::add_lora_case(engine, one, name);
    EXPECT_TRUE(finish_lora_cases(engine).at(name) == together.at(name)) << name;
    if (!one["adapter"].is_null()) continue;
    testing::add_lora_case(plain, one, name);
    EXPECT_TRUE(finish_lora_cases(plain).at(name) == together.at(name)) << name;
  }
}

TEST_P(Lora, ASourceIsNotSharedBetweenAdapters) {
  LLMEngine engine(lora_config(GetParam()));
  std::set<std::vector<int>> different;
  json one = cases_[0];
  one["generation"] = {{"num_beams", 1}, {"do_sample", false}, {"max_new_tokens", 24}};
  std::vector<json> adapters{nullptr};
  for (const proto::Adapter& adapter : engine.processor().adapters().list())
    adapters.push_back(adapter.name());
  std::map<std::string, LoraResult> first;
  for (const int turn : {0, 1}) {
    for (const json& adapter : adapters) {
      one["adapter"] = adapter;
      testing::add_lora_case(engine, one, adapter.dump());
      const LoraResult result = finish_lora_cases(engine).at(adapter.dump());
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
