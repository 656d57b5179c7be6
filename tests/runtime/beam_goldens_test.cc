// HuggingFace's beam goldens through the engine: sequences and scores, mixed with the others in one
// batch, whatever the blocks and however short the cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "runtime/llm_engine.h"
#include "tests/support/golden_config.h"

namespace tandem {
namespace {

using nlohmann::json;
using Ids = std::vector<int>;

// HuggingFace pads what ends before the longest.
Ids unpadded(Ids ids, int pad) {
  while (ids.size() > 1 && ids.back() == pad) ids.pop_back();
  return ids;
}

void check(const json& c, const proto::RequestOutput& got, int pad) {
  const json expected =
      c.contains("sequences") ? c.at("sequences") : json::array({c.at("output_ids")});
  ASSERT_EQ(static_cast<size_t>(got.outputs_size()), expected.size());
  for (int i = 0; i < got.outputs_size(); ++i) {
    Ids ids(got.inputs().prompt_token_ids().begin(), got.inputs().prompt_token_ids().end());
    ids.insert(ids.end(), got.outputs(i).token_ids().begin(), got.outputs(i).token_ids().end());
    EXPECT_EQ(unpadded(ids, pad), unpadded(expected[static_cast<size_t>(i)].get<Ids>(), pad));
    EXPECT_NE(got.outputs(i).finish_reason(), "");
    if (!c.contains("sequences_scores")) continue;
    ASSERT_TRUE(got.outputs(i).has_score());
    EXPECT_NEAR(got.outputs(i).score(), c.at("sequences_scores")[static_cast<size_t>(i)], 2e-3);
  }
}

void expect_goldens(const EngineConfig& config, const std::string& checkpoint, uint32_t seed) {
  LLMEngine engine(config);
  std::vector<json> cases = testing::generated_cases(checkpoint);
  std::mt19937 random(seed);
  std::shuffle(cases.begin(), cases.end(), random);
  for (const json& c : cases) {
    json prompt = {{"encoder_prompt", {{"prompt_token_ids", c.at("encoder_ids")}}}};
    if (c.contains("decoder_prompt_ids"))
      prompt["decoder_prompt"] = {{"prompt_token_ids", c.at("decoder_prompt_ids")}};
    engine.add_request(c.at("name"), prompt, c.at("generation"));
  }
  std::map<std::string, proto::RequestOutput> results;
  for (int i = 0; engine.has_unfinished_requests(); ++i) {
    ASSERT_LT(i, 100000) << "no progress";
    for (const auto& output : engine.step())
      if (output.finished()) results[output.request_id()] = output;
    engine.check_integrity();
  }
  const auto pad = engine.model_config().pad_token_id;
  for (const json& c : cases) {
    const std::string name = c.at("name");
    SCOPED_TRACE(checkpoint + ", " + name);
    ASSERT_EQ(results.count(name), 1u);
    check(c, results.at(name), pad);
  }
}

class BeamGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(BeamGoldens, AmongTheOthers) {
  for (const int block_size : {1, 2, 16, 32}) {
    EngineConfig config = testing::golden_config(GetParam());
    config.block_size = block_size;
    expect_goldens(config, GetParam(), static_cast<uint32_t>(block_size));
  }
}

TEST_P(BeamGoldens, Preempted) {
  for (const auto mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
    EngineConfig config = testing::golden_config(GetParam());
    config.block_size = 4;
    config.preemption = mode;
    config.num_gpu_blocks_override = 80;
    expect_goldens(config, GetParam(), 3);
  }
}

TEST_P(BeamGoldens, FewTokensAStep) {
  EngineConfig config = testing::golden_config(GetParam());
  config.max_num_batched_tokens = 8;
  expect_goldens(config, GetParam(), 4);
}

INSTANTIATE_TEST_SUITE_P(Bart, BeamGoldens,
                         ::testing::Values("bart-tiny", "bart-base-shape", "bart-odd-heads",
                                           "bart-model-only"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

json tiny_prompt() { return {{"prompt_token_ids", {0, 51, 178, 9, 33, 2}}}; }

std::vector<proto::RequestOutput> run(LLMEngine& engine, const json& params) {
  engine.add_request("x", tiny_prompt(), params);
  std::vector<proto::RequestOutput> outputs;
  while (engine.has_unfinished_requests())
    for (const auto& output : engine.step()) outputs.push_back(output);
  return outputs;
}

// Beams change until the end, so nothing is shown before.
TEST(Beams, OneOutputAtTheEnd) {
  LLMEngine engine(testing::golden_config("bart-tiny"));
  const auto outputs = run(engine, {{"num_beams", 4}, {"n", 3}, {"max_new_tokens", 12}});
  ASSERT_EQ(outputs.size(), 1u);
  ASSERT_EQ(outputs[0].outputs_size(), 3);
  EXPECT_TRUE(outputs[0].finished());
  for (int i = 1; i < 3; ++i)
    EXPECT_LE(outputs[0].outputs(i).score(), outputs[0].outputs(i - 1).score());
}

TEST(Beams, SamplingFollowsTheSeed) {
  LLMEngine engine(testing::golden_config("bart-tiny"));
  std::vector<std::string> texts;
  for (const int seed : {1, 1, 2, 3, 4}) {
    const auto outputs = run(engine, {{"num_beams", 3},
                                      {"do_sample", true},
                                      {"temperature", 2.0},
                                      {"top_p", 0.9},
                                      {"seed", seed},
                                      {"max_new_tokens", 16}});
    ASSERT_EQ(outputs.size(), 1u);
    texts.push_back(outputs[0].outputs(0).ShortDebugString());
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_TRUE(texts[2] != texts[0] || texts[3] != texts[0] || texts[4] != texts[0]);
}

TEST(Beams, AbortFreesAll) {
  LLMEngine engine(testing::golden_config("bart-tiny"));
  engine.add_request("x", tiny_prompt(), {{"num_beams", 4}, {"max_new_tokens", 30}});
  for (int i = 0; i < 4; ++i) engine.step();
  EXPECT_TRUE(engine.abort_request("x"));
  engine.check_integrity();
  const BlockManager& blocks = engine.scheduler().block_manager();
  EXPECT_EQ(blocks.num_free_device_blocks(), blocks.num_total_device_blocks());
}

}  // namespace
}  // namespace tandem
