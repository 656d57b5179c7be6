// Drafts change how many steps it takes, and nothing else: tokens, log-probabilities, texts and
// ends are those of an engine without, whatever is asked for and whatever else shares the steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/engine/random_requests.h"
#include "tests/support/goldens/golden_engine.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::Asked;
using testing::expect_same;
using testing::RandomRequests;
using testing::run_all;

EngineConfig drafting(EngineConfig config, int num_tokens) {
  config.mutable_drafting()->set_num_speculative_tokens(num_tokens);
  return config;
}

class SpeculationGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(SpeculationGoldens, TokensAreHuggingFaces) {
  for (const int num_tokens : {1, 7}) {
    EngineConfig config = drafting(testing::golden_config(GetParam()), num_tokens);
    config.mutable_loading()->set_threads(2);
    testing::expect_goldens(config, GetParam(), 11);
    config.mutable_cache()->set_block_size(1);
    config.mutable_scheduling()->set_max_num_seqs(16);
    config.mutable_scheduling()->set_max_num_batched_tokens(16 + num_tokens);
    testing::expect_goldens(config, GetParam(), 12);
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, SpeculationGoldens,
                         ::testing::Values("bart-tiny", "bart-odd-heads", "blenderbot-tiny",
                                           "marian-tiny", "mbart50-tiny", "plbart-tiny"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

class Speculation : public ::testing::TestWithParam<const char*> {};

TEST_P(Speculation, NothingElseChanges) {
  EngineConfig config = testing::golden_config(GetParam());
  config.mutable_loading()->set_threads(2);
  LLMEngine plain(config);
  std::mt19937_64 rng(5);
  int64_t accepted = 0, wrong = 0, preempted = 0;
  // (Drafts adapt to how fast this machine is: more rounds, if few are accepted or wrong.)
  const auto few = [&] { return accepted <= 30 || wrong <= 10; };
  for (int round = 0; round < 12 || (few() && round < 60); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    EngineConfig other = drafting(config, 1 + static_cast<int>(rng() % 8));
    other.mutable_drafting()->set_prompt_lookup_min(1 + static_cast<int>(rng() % 2));
    other.mutable_cache()->set_block_size(round % 3 == 0 ? 1 : 4);
    other.mutable_scheduling()->set_max_num_batched_tokens(round % 2 == 0 ? 2048 : 40);
    if (round % 4 == 1) other.mutable_cache()->set_num_gpu_blocks_override(64);
    other.mutable_scheduling()->set_preemption_mode(testing::preemption_name(
        round % 8 == 1 ? PreemptionMode::kSwap : PreemptionMode::kRecompute));
    LLMEngine engine(other);
    RandomRequests requests(rng(), engine.model_config().vocab_size);
    std::vector<Asked> all;
    for (int i = round % 4 == 0 ? 1 : 12; i > 0; --i) all.push_back(requests.next());
    expect_same(plain, engine, all);
    const SpeculationStats& stats = engine.scheduler().speculation_stats();
    accepted += stats.accepted_tokens;
    wrong += stats.draft_tokens - stats.accepted_tokens;
    preempted += engine.scheduler().num_preemptions();
    EXPECT_GE(stats.draft_tokens, stats.drafts);
    EXPECT_LE(stats.accepted_per_position.front(), stats.drafts);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(accepted, 30);
  EXPECT_GT(wrong, 10);
  EXPECT_GT(preempted, 0);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Speculation,
                         ::testing::Values("bart-odd-heads", "bart-tiny", "t5-tiny"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// A stop string that ends within tokens that came together.
TEST(SpeculationCases, StopStringsEndWhereTheyDid) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_scheduling()->set_max_num_seqs(2);  // few: drafts are worth more
  LLMEngine plain(config), engine(drafting(config, 8));
  RandomRequests requests(3, engine.model_config().vocab_size);
  std::vector<Asked> all;
  for (int i = 0; i < 20; ++i) {
    Asked asked = requests.next();
    asked.params = {{"max_new_tokens", 40}, {"ignore_eos", true}};
    asked.params["allowed_token_ids"] = json::array({7 + i, 8 + i, 9 + i});
    all.push_back(asked);
  }
  // Texts as they are; then each is stopped somewhere within.
  for (const auto& [id, output] : run_all(plain, all)) {
    const std::string& text = output.outputs(0).text();
    if (text.size() < 8) continue;
    all[std::stoul(id)].params["stop"] = json::array({text.substr(text.size() / 2, 3)});
  }
  expect_same(plain, engine, all);
  EXPECT_GT(engine.scheduler().speculation_stats().accepted_tokens, 20);
}

// A sequence that repeats itself takes fewer steps than it has tokens.
TEST(SpeculationCases, TakesFewerSteps) {
  const auto steps = [](int num_tokens) {
    LLMEngine engine(drafting(testing::golden_config("bart-tiny"), num_tokens));
    const json prompt = {{"encoder_prompt", {{"prompt_token_ids", {0, 7, 8, 9, 2}}}}};
    const json params = {{"max_tokens", 40}, {"ignore_eos", true}, {"allowed_token_ids", {7, 8}}};
    engine.add_request("r", prompt, params);
    int count = 0;
    for (; engine.has_unfinished_requests(); ++count) engine.step();
    return count;
  };
  EXPECT_GE(steps(0), 40);
  EXPECT_LE(steps(6), 25);
}

// Its output, random words that nothing tells beforehand, is a draft the second time.
TEST(SpeculationCases, ARequestThatIsSentAgainTakesFewerSteps) {
  for (const bool caching : {true, false}) {
    EngineConfig config = drafting(testing::golden_config("bart-tiny"), 8);
    config.mutable_cache()->set_enable_prefix_caching(caching);
    LLMEngine engine(config);
    const json prompt = {{"encoder_prompt", {{"prompt_token_ids", {0, 7, 8, 9, 2}}}}};
    const json params = {
        {"max_tokens", 40}, {"ignore_eos", true}, {"temperature", 5.0}, {"seed", 3}};
    std::vector<int> steps;
    std::vector<std::string> texts;
    for (int i = 0; i < 4; ++i) {
      engine.add_request("r", prompt, params);
      steps.push_back(0);
      for (; engine.has_unfinished_requests(); ++steps.back())
        for (const proto::RequestOutput& output : engine.step())
          if (output.finished()) texts.push_back(output.outputs(0).text());
    }
    EXPECT_EQ(texts, std::vector<std::string>(4, texts.front()));
    EXPECT_GE(steps.front(), 35);
    if (caching)
      EXPECT_LE(steps.back(), 20);
    else
      EXPECT_GE(steps.back(), 35);
  }
}

}  // namespace
}  // namespace tandem
