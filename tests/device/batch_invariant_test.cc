// --batch-invariant through the CUDA plugin, on the emulator: in 16 bits a request has the same
// tokens and log-probabilities, bit for bit, alone and beside others, however its steps run.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/execution/engine_config.h"
#include "tests/support/goldens/golden_results.h"

namespace tandem::batch_invariant_test {
namespace {

using nlohmann::json;

EngineConfig config_of(const std::string& checkpoint, const std::string& dtype, bool invariant) {
  EngineConfig config = testing::golden_config(checkpoint);
  config.mutable_loading()->set_device("cuda");
  config.mutable_loading()->set_dtype(dtype);
  config.mutable_loading()->set_batch_invariant(invariant);
  config.mutable_cache()->set_num_gpu_blocks_override(2000);
  return config;
}

// Some of greedy choice and as many with beams, of a few tokens.
std::vector<json> cases_of(const std::string& checkpoint, size_t of_a_kind) {
  std::map<std::string, size_t> kinds;
  std::vector<json> cases;
  for (json c : testing::generated_cases(checkpoint)) {
    json& generation = c.at("generation");
    if (generation.value("min_length", 0) > 0 ||
        (c.at("kind") != "greedy" && c.at("kind") != "beam") || kinds[c.at("kind")]++ >= of_a_kind)
      continue;
    generation["max_new_tokens"] = std::min(8, generation.value("max_new_tokens", 8));
    cases.push_back(std::move(c));
  }
  return cases;
}

struct Setting {
  const char* checkpoint;
  const char* dtype;
  const char* quantization = "none";
};

class BatchInvariant : public ::testing::TestWithParam<Setting> {};

TEST_P(BatchInvariant, ARequestDoesNotDependOnOthers) {
  const Setting& setting = GetParam();
  const std::vector<json> cases = cases_of(setting.checkpoint, 4);
  ASSERT_GE(cases.size(), 5u);
  EngineConfig config = config_of(setting.checkpoint, setting.dtype, true);
  config.mutable_loading()->set_quantization(setting.quantization);
  const testing::Results alone = testing::one_by_one(config, cases);
  EXPECT_EQ(testing::together(config, cases, 1), alone);
  config.mutable_scheduling()->set_max_num_batched_tokens(64);  // other steps
  config.mutable_loading()->set_enforce_eager(true);
  EXPECT_EQ(testing::together(config, cases, 2), alone);
}

INSTANTIATE_TEST_SUITE_P(, BatchInvariant,
                         ::testing::Values(Setting{"bart-tiny", "bfloat16"},
                                           Setting{"t5-tiny", "float16"},
                                           Setting{"bart-odd-heads", "bfloat16", "int8"}),
                         [](const auto& info) {
                           std::string name = info.param.checkpoint;
                           std::ranges::replace(name, '-', '_');
                           return name + "_" + info.param.dtype + "_" + info.param.quantization;
                         });

// Long decoder prompts: computed at once, in pieces, and again with what was generated when others
// needed the blocks.
TEST(BatchInvariantPrompts, MayBeComputedInAnyPieces) {
  std::vector<json> cases = cases_of("bart-tiny", 3);
  int salt = 0;
  for (json& c : cases) {
    c["decoder_prompt_ids"] = {2};
    for (int i = 0; i < 20; ++i) c["decoder_prompt_ids"].push_back(100 + (i * 37 + salt++) % 900);
    c["generation"]["max_new_tokens"] = 12;
  }
  EngineConfig config = config_of("bart-tiny", "bfloat16", true);
  config.mutable_cache()->set_block_size(4);
  const testing::Results alone = testing::one_by_one(config, cases);
  config.mutable_scheduling()->set_max_num_batched_tokens(64);
  EXPECT_EQ(testing::together(config, cases, 1), alone);
  config.mutable_cache()->set_num_gpu_blocks_override(64);
  config.mutable_scheduling()->set_preemption_mode("recompute");
  int preemptions = 0;
  EXPECT_EQ(testing::together(config, cases, 2, &preemptions), alone);
  EXPECT_GT(preemptions, 0);
}

// Drafts are verified in rows of their own, so then too a request has the tokens of one without.
TEST(BatchInvariantDrafts, HaveTheTokensWithoutThem) {
  const std::vector<json> cases = cases_of("bart-tiny", 4);
  EngineConfig config = config_of("bart-tiny", "bfloat16", true);
  const testing::Results plain = testing::together(config, cases, 1);
  config.mutable_drafting()->set_num_speculative_tokens(4);
  EXPECT_EQ(testing::together(config, cases, 1), plain);
}

// What the flag is for: without it products of few rows and of more add in different orders.
TEST(BatchInvariantFlag, IsNotWhatHappensAnyway) {
  const std::vector<json> cases = cases_of("bart-base-shape", 2);
  const EngineConfig config = config_of("bart-base-shape", "bfloat16", false);
  EXPECT_NE(testing::together(config, cases, 1), testing::one_by_one(config, cases));
}

TEST(BatchInvariantFlag, SumsOfMoreThanTwoGpusAreRefused) {
  EngineConfig config = config_of("bart-tiny", "bfloat16", true);
  const auto ctx = make_context(config, DType::kBF16, 1);
  EXPECT_NO_THROW(check_sums_of_ranks(config, *ctx, 2));
  try {
    check_sums_of_ranks(config, *ctx, 3);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_NE(std::string(e.what()).find("--batch-invariant"), std::string::npos) << e.what();
  }
  EXPECT_NO_THROW(check_sums_of_ranks(config, Context(1), 4));  // of CPUs
  config.mutable_loading()->set_batch_invariant(false);
  EXPECT_NO_THROW(check_sums_of_ranks(config, *ctx, 4));
}

}  // namespace
}  // namespace tandem::batch_invariant_test
