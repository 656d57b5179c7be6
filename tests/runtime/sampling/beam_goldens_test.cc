// HuggingFace's beam goldens through the engine: sequences and scores, mixed with the others in one
// batch, whatever the blocks and however short the cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/support/goldens/golden_engine.h"

namespace tandem::beam_goldens_test {
namespace {

using nlohmann::json;

class BeamGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(BeamGoldens, AmongTheOthers) {
  for (const int block_size : {1, 2, 16, 32}) {
    EngineConfig config = testing::golden_config(GetParam());
    config.mutable_cache()->set_block_size(block_size);
    testing::expect_goldens(config, GetParam(), static_cast<uint32_t>(block_size));
  }
}

TEST_P(BeamGoldens, Preempted) {
  for (const auto mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
    EngineConfig config = testing::golden_config(GetParam());
    config.mutable_cache()->set_block_size(4);
    config.mutable_scheduling()->set_preemption_mode(testing::preemption_name(mode));
    config.mutable_cache()->set_num_gpu_blocks_override(80);
    testing::expect_goldens(config, GetParam(), 3);
  }
}

TEST_P(BeamGoldens, FewTokensAStep) {
  EngineConfig config = testing::golden_config(GetParam());
  config.mutable_scheduling()->set_max_num_batched_tokens(8);
  testing::expect_goldens(config, GetParam(), 4);
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
  EXPECT_EQ(blocks.device().num_free(), blocks.device().num_total());
}

}  // namespace
}  // namespace tandem::beam_goldens_test
