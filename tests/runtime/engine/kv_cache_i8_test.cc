// Generations with keys and values in int8: the same tokens and scores in any batch, with few
// blocks and with drafts; near those of the whole cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/engine/random_requests.h"
#include "tests/support/goldens/golden_families.h"
#include "tests/support/goldens/golden_results.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::Asked;
using testing::expect_same;
using testing::RandomRequests;
using testing::Results;
using testing::together;

constexpr size_t kCases = 12;  // of a checkpoint

EngineConfig config_of(const std::string& checkpoint, DType dtype, bool i8 = true) {
  EngineConfig config = testing::golden_config(checkpoint);
  config.mutable_loading()->set_dtype(name_of(dtype));
  config.mutable_cache()->set_block_size(4);
  if (i8) config.mutable_cache()->set_kv_cache_dtype("int8");
  return config;
}

class KvCacheI8 : public ::testing::TestWithParam<const char*> {};

TEST_P(KvCacheI8, ResultsDoNotDependOnTheBatch) {
  std::vector<json> cases = testing::generated_cases(GetParam());
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  std::shuffle(cases.begin(), cases.end(), random);
  cases.resize(std::min<size_t>(cases.size(), kCases));
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8, DType::kI4}) {
    SCOPED_TRACE(name_of(dtype));
    EngineConfig config = config_of(GetParam(), dtype);
    const Results expected = testing::one_by_one(config, cases);
    EXPECT_NE(together(config_of(GetParam(), dtype, false), cases, seed), expected)
        << "the whole cache under another name";
    config.mutable_loading()->set_threads(3);
    config.mutable_cache()->set_block_size(16);
    config.mutable_scheduling()->set_max_num_seqs(
        12);  // fewer than the cases ask for, and enough for the most beams
    EXPECT_EQ(together(config, cases, seed), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Bart, KvCacheI8, ::testing::Values("bart-tiny", "bart-odd-heads"),
                         testing::checkpoint_test_name);
INSTANTIATE_TEST_SUITE_P(Families, KvCacheI8, ::testing::ValuesIn(testing::family_goldens()),
                         testing::checkpoint_test_name);

// Blocks move with their scales: out and in again, from beam to beam, and to be computed anew;
// drafts are verified over them.
TEST(KvCacheI8Cases, FewBlocksAndDraftsChangeNothing) {
  // Drafts adapt to how fast this machine is: more rounds, if few are accepted.
  constexpr int64_t kAccepted = 11;
  std::mt19937_64 rng(8);
  int64_t preempted = 0, accepted = 0;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
    LLMEngine plain(config_of("bart-tiny", dtype));
    for (int round = 0; round < 6 || (accepted < kAccepted && round < 40); ++round) {
      SCOPED_TRACE(name_of(dtype) + (" round " + std::to_string(round)));
      EngineConfig few = config_of("bart-tiny", dtype);
      few.mutable_cache()->set_num_gpu_blocks_override(64);
      few.mutable_scheduling()->set_preemption_mode(testing::preemption_name(
          round % 2 == 0 ? PreemptionMode::kSwap : PreemptionMode::kRecompute));
      few.mutable_scheduling()->set_max_num_batched_tokens(round < 2 ? 2048 : 40);
      few.mutable_drafting()->set_num_speculative_tokens(round < 2 ? 0 : 2 + round % 4);
      LLMEngine engine(few);
      RandomRequests requests(rng(), engine.model_config().vocab_size);
      std::vector<Asked> all;
      for (int i = 0; i < 12; ++i) all.push_back(requests.next());
      expect_same(plain, engine, all);
      preempted += engine.scheduler().num_preemptions();
      accepted += engine.scheduler().speculation_stats().accepted_tokens;
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(preempted, 0);
  EXPECT_GE(accepted, kAccepted);
}

TEST(KvCacheI8Cases, DraftModelsHaveThemToo) {
  const EngineConfig config = config_of("bart-tiny", DType::kI8);
  EngineConfig drafting = config;
  drafting.mutable_drafting()->set_draft_model(config.loading().model());
  drafting.mutable_drafting()->set_num_speculative_tokens(4);
  drafting.mutable_drafting()->set_draft_cost(0.02);
  drafting.mutable_drafting()->set_draft_dtype("float32");
  LLMEngine plain(config), engine(drafting);
  RandomRequests requests(3, engine.model_config().vocab_size);
  const SpeculationStats& stats = engine.scheduler().speculation_stats();
  for (int round = 0; round == 0 || (stats.accepted_tokens <= 10 && round < 20); ++round) {
    std::vector<Asked> all;
    for (int i = 0; i < 8; ++i) all.push_back(requests.next());
    expect_same(plain, engine, all);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(stats.accepted_tokens, 10);
}

TEST(KvCacheI8Cases, AboutHalfTheBytesOfBFloat16) {
  const KvCacheSpec bf16{12, 16, 64, DType::kBF16}, i8{12, 16, 64, DType::kI8};
  EXPECT_EQ(bf16.block_bytes(16), size_t{2} * 12 * 16 * 16 * 128);
  EXPECT_EQ(i8.block_bytes(16), size_t{2} * 12 * 16 * 16 * 68);
}

}  // namespace
}  // namespace tandem
