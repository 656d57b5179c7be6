// LoRA adapters on a device (the emulator), end to end: HuggingFace's tokens in one batch with the
// base's, whose own steps are still recorded; short caches; adapters that come and go.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "runtime/request/adapter_names.h"
#include "tests/support/goldens/lora_goldens.h"

namespace tandem::lora_device_test {
namespace {

using nlohmann::json;
using testing::lora_dir;

struct Setting {
  const char* name;
  const char* base;
  bool eager;
  int block_size, blocks;
  PreemptionMode preemption;
};
void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

EngineConfig device_config(EngineConfig config, int blocks = 2000) {
  config.mutable_loading()->set_device("cuda");
  config.mutable_cache()->set_num_gpu_blocks_override(blocks);
  return config;
}

class LoraOnADevice : public ::testing::TestWithParam<Setting> {};

TEST_P(LoraOnADevice, HuggingFacesTokensInOneBatch) {
  const Setting& setting = GetParam();
  EngineConfig config = device_config(testing::lora_config(setting.base), setting.blocks);
  config.mutable_loading()->set_enforce_eager(setting.eager);
  config.mutable_cache()->set_block_size(setting.block_size);
  config.mutable_scheduling()->set_preemption_mode(testing::preemption_name(setting.preemption));
  testing::expect_lora_goldens(config, setting.base);
}

INSTANTIATE_TEST_SUITE_P(
    Settings, LoraOnADevice,
    ::testing::Values(Setting{"bart", "bart-tiny", false, 16, 2000, PreemptionMode::kAuto},
                      Setting{"eager", "t5-tiny", true, 1, 2000, PreemptionMode::kAuto},
                      Setting{"recompute", "t5-tiny", false, 1, 400, PreemptionMode::kRecompute}),
    [](const auto& info) { return info.param.name; });

// Steps of the base alone are replayed, before and behind steps with adapters, which are not.
TEST(LoraSteps, ThoseOfTheBaseAreReplayed) {
  LLMEngine engine(device_config(testing::lora_config("bart-tiny")));
  LLMEngine plain(device_config(testing::golden_config("bart-tiny")));
  const auto run = [](LLMEngine& in, const json& adapter) {
    json one = testing::lora_cases("bart-tiny")[0];
    one["adapter"] = adapter;
    testing::add_lora_case(in, one, "x");
    const DecoderStats before = in.decoder_stats();
    auto result = testing::finish_lora_cases(in).at("x");
    const DecoderStats after = in.decoder_stats();
    EXPECT_GT(after.run, before.run);
    return std::pair(result, after.replayed - before.replayed);
  };
  const auto [base, base_replayed] = run(plain, nullptr);
  EXPECT_GT(base_replayed, 0);
  std::vector<testing::LoraResult> adapted;
  for (int turn = 0; turn < 2; ++turn) {
    const auto [result, replayed] = run(engine, nullptr);
    EXPECT_TRUE(result == base) << turn;
    EXPECT_GT(replayed, 0) << turn;
    for (const char* name : {"qv-r4", "dora-r4"}) {
      const auto [changed, more] = run(engine, name);
      EXPECT_EQ(more, 0) << name;
      EXPECT_NE(changed.logprobs, base.logprobs) << name;
      adapted.push_back(changed);
    }
  }
  EXPECT_TRUE(adapted[0] == adapted[2]);
  EXPECT_TRUE(adapted[1] == adapted[3]);
}

// Log-probabilities of prompts, rows that the host samples, and beams, with adapters and without:
// as a CPU's.
TEST(LoraSteps, WhateverIsAskedForIsAsOnACpu) {
  const auto run = [](const EngineConfig& config) {
    LLMEngine engine(config);
    json cases = testing::lora_cases("bart-tiny");
    const std::vector<json> params = {
        {{"num_beams", 1}, {"max_tokens", 9}, {"prompt_logprobs", 2}, {"logprobs", 3}},
        {{"num_beams", 1}, {"max_tokens", 9}, {"do_sample", true}, {"typical_p", 0.7}, {"seed", 3}},
        {{"num_beams", 1}, {"max_tokens", 9}, {"do_sample", true}, {"top_k", 9}, {"seed", 4}},
        {{"num_beams", 3}, {"max_tokens", 9}, {"n", 2}},
        {{"num_beams", 1}, {"max_tokens", 9}, {"no_repeat_ngram_size", 2}}};
    for (size_t i = 0; i < 15; ++i) {
      json one = cases[i % cases.size()];
      const std::vector<json> adapters = {nullptr, "qv-r4", "dora-r4"};
      one["adapter"] = adapters[i % 3];
      one["generation"] = params[i / 3];
      testing::add_lora_case(engine, one, std::to_string(i));
    }
    return testing::finish_lora_cases(engine);
  };
  const auto there = run(device_config(testing::lora_config("bart-tiny")));
  const auto here = run(testing::lora_config("bart-tiny"));
  ASSERT_EQ(there.size(), here.size());
  for (const auto& [id, result] : here) {
    EXPECT_EQ(there.at(id).ids, result.ids) << id;
    for (size_t i = 0; i < result.logprobs.size(); ++i)
      EXPECT_NEAR(there.at(id).logprobs.at(i), result.logprobs[i], 1e-3) << id;
  }
}

TEST(LoraSteps, AdaptersComeAndGo) {
  EngineConfig config = device_config(testing::golden_config("bart-tiny"));
  config.mutable_adapters()->set_allow_runtime_lora_updating(true);
  config.mutable_adapters()->set_max_loras(1);
  LLMEngine engine(config);
  AdapterNames& names = engine.processor().adapters();
  const auto run = [&](const json& adapter) {
    json one = testing::lora_cases("bart-tiny")[0];
    one["adapter"] = adapter;
    testing::add_lora_case(engine, one, "x");
    return testing::finish_lora_cases(engine).at("x").logprobs;
  };
  const std::string qv = (lora_dir("bart-tiny") / "qv-r4").string(),
                    dora = (lora_dir("bart-tiny") / "dora-r4").string();
  const auto base = run(nullptr);
  names.load("a", qv);
  const auto changed = run("a");
  EXPECT_NE(changed, base);
  names.unload("a");
  names.load("a", dora);
  EXPECT_NE(run("a"), changed);
  names.load("b", qv);
  EXPECT_EQ(run("b"), changed);
  EXPECT_EQ(run(nullptr), base);
}

// 16-bit activations, with weights of the base that are quantised and such that are not: about what
// float32 gives with the same weights.
TEST(LoraSteps, InEveryType) {
  for (const char* dtype : {"float16", "bfloat16"})
    for (const char* quantization : {"none", "int8"}) {
      EngineConfig config = device_config(testing::lora_config("bart-tiny"));
      config.mutable_loading()->set_dtype(dtype);
      config.mutable_loading()->set_quantization(quantization);
      LLMEngine engine(config);
      config.mutable_loading()->set_dtype("float32");
      LLMEngine exact(config);
      for (const json& adapter : {json(nullptr), json("qv-r4"), json("dora-r4")}) {
        std::vector<double> logprobs;
        for (LLMEngine* one : {&engine, &exact}) {
          json request = testing::lora_cases("bart-tiny")[0];
          request["adapter"] = adapter;
          request["generation"] = {{"num_beams", 1}, {"max_tokens", 1}};
          testing::add_lora_case(*one, request, "x");
          logprobs.push_back(testing::finish_lora_cases(*one).at("x").logprobs[0]);
        }
        EXPECT_NEAR(logprobs[0], logprobs[1], 0.15) << dtype << quantization << adapter;
      }
    }
}

}  // namespace
}  // namespace tandem::lora_device_test
