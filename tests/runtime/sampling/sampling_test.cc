// Sampling through the engine: what a seed determines, the best of several, and log-probabilities
// of beams.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::sampling_test {
namespace {

using nlohmann::json;

json prompt_of(int i) {
  std::vector<int> encoder{0}, decoder{2};
  for (int k = 0; k < 6 + 3 * (i % 5); ++k) encoder.push_back(10 + (37 * i + 11 * k) % 500);
  for (int k = 0; k < 3 + 2 * (i % 4); ++k) decoder.push_back(10 + (53 * i + 17 * k) % 500);
  encoder.push_back(2);
  return {{"encoder_prompt", {{"prompt_token_ids", encoder}}},
          {"decoder_prompt", {{"prompt_token_ids", decoder}}}};
}

// Sampling of several kinds, each with a seed.
json params_of(int i) {
  json params = {{"seed", 1000 + i},   {"max_tokens", 12 + i % 7}, {"temperature", 1.3},
                 {"ignore_eos", true}, {"num_beams", 1},           {"logprobs", 0}};
  switch (i % 4) {
    case 0: params["n"] = 3; break;
    case 1: params.update({{"n", 2}, {"best_of", 4}}); break;
    case 2: params.update({{"top_p", 0.9}, {"top_k", 40}}); break;
    default: params.update({{"num_beams", 3}, {"do_sample", true}, {"n", 2}}); break;
  }
  return params;
}

using Results = std::map<std::string, proto::RequestOutput>;

Results run_all(LLMEngine& engine) {
  Results out;
  while (engine.has_unfinished_requests())
    for (auto& o : engine.step()) {
      engine.check_integrity();
      if (o.finished()) out[o.request_id()] = o;
    }
  return out;
}

void expect_same(const proto::RequestOutput& got, const proto::RequestOutput& want) {
  ASSERT_EQ(got.outputs_size(), want.outputs_size());
  for (int i = 0; i < got.outputs_size(); ++i) {
    const auto& a = got.outputs(i).token_ids();
    const auto& b = want.outputs(i).token_ids();
    EXPECT_EQ(std::vector<int>(a.begin(), a.end()), std::vector<int>(b.begin(), b.end())) << i;
    EXPECT_EQ(got.outputs(i).text(), want.outputs(i).text());
    EXPECT_NEAR(got.outputs(i).cumulative_logprob(), want.outputs(i).cumulative_logprob(), 1e-3);
  }
}

TEST(Seeds, DetermineTheResultWhateverElseRuns) {
  constexpr int kRequests = 8;
  Results alone;
  {
    LLMEngine engine(testing::golden_config("bart-odd-heads"));
    for (int i = 0; i < kRequests; ++i) {
      engine.add_request(std::to_string(i), prompt_of(i), params_of(i));
      alone.merge(run_all(engine));
    }
  }
  std::map<std::string, EngineConfig> configs;
  configs["together"] = testing::golden_config("bart-odd-heads");
  configs["chunked"] = testing::golden_config("bart-odd-heads");
  configs["chunked"].mutable_scheduling()->set_max_num_batched_tokens(7);
  configs["chunked"].mutable_cache()->set_block_size(4);
  for (const auto mode : {PreemptionMode::kSwap, PreemptionMode::kRecompute}) {
    EngineConfig& config = configs[mode == PreemptionMode::kSwap ? "swapped" : "recomputed"];
    config = testing::golden_config("bart-odd-heads");
    config.mutable_cache()->set_block_size(2);
    config.mutable_cache()->set_num_gpu_blocks_override(90);
    config.mutable_scheduling()->set_preemption_mode(testing::preemption_name(mode));
  }
  for (const auto& [name, config] : configs) {
    SCOPED_TRACE(name);
    LLMEngine engine(config);
    for (int i = kRequests - 1; i >= 0; --i)
      engine.add_request(std::to_string(i), prompt_of(i), params_of(i));
    const Results together = run_all(engine);
    int preemptions = 0;
    for (int i = 0; i < kRequests; ++i) {
      SCOPED_TRACE(i);
      const auto& got = together.at(std::to_string(i));
      expect_same(got, alone.at(std::to_string(i)));
      preemptions += got.metrics().num_preemptions();
    }
    EXPECT_EQ(preemptions, engine.scheduler().num_preemptions());
    EXPECT_EQ(preemptions > 0, name == "swapped" || name == "recomputed");
  }
}

TEST(BestOf, ReturnsTheBestOfWhatNWouldReturn) {
  LLMEngine engine(testing::golden_config("bart-odd-heads"));
  json params = {{"seed", 3}, {"n", 6}, {"max_tokens", 9}, {"temperature", 1.5}, {"num_beams", 1}};
  engine.add_request("all", prompt_of(1), params);
  auto all = run_all(engine).at("all");
  params.update({{"n", 3}, {"best_of", 6}, {"logprobs", 0}});
  engine.add_request("best", prompt_of(1), params);
  proto::RequestOutput best;
  while (engine.has_unfinished_requests())
    for (auto& o : engine.step()) {
      ASSERT_EQ(o.outputs_size(), 3);
      for (const auto& c : o.outputs())  // nothing is shown before all have ended
        ASSERT_TRUE(o.finished() || (c.token_ids().empty() && c.text().empty()));
      best = o;
    }
  auto& order = *all.mutable_outputs();
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.cumulative_logprob() > b.cumulative_logprob();
  });
  ASSERT_TRUE(best.finished());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(best.outputs(i).index(), i);
    EXPECT_EQ(best.outputs(i).text(), order[i].text());
    EXPECT_EQ(best.outputs(i).cumulative_logprob(), order[i].cumulative_logprob());
    EXPECT_EQ(best.outputs(i).logprobs_size(), best.outputs(i).token_ids_size());
  }
  bool moved = false;  // the seed is such that the order says something
  for (int i = 0; i < all.outputs_size(); ++i) moved |= all.outputs(i).index() != i;
  EXPECT_TRUE(moved);
}

TEST(Beams, LogprobsOfTokensAndOfThePrompt) {
  LLMEngine engine(testing::golden_config("bart-odd-heads"));
  json params = {{"num_beams", 4},       {"n", 4},
                 {"max_tokens", 8},      {"logprobs", 0},
                 {"prompt_logprobs", 2}, {"no_repeat_ngram_size", 2}};
  engine.add_request("beams", prompt_of(2), params);
  const auto beams = run_all(engine).at("beams");
  engine.add_request("greedy", prompt_of(2),
                     {{"num_beams", 1}, {"max_tokens", 1}, {"prompt_logprobs", 2}});
  const auto greedy = run_all(engine).at("greedy");
  ASSERT_EQ(beams.outputs_size(), 4);
  for (const auto& c : beams.outputs()) {
    ASSERT_EQ(c.logprobs_size(), c.token_ids_size());
    double sum = 0;
    for (int i = 0; i < c.logprobs_size(); ++i) {
      ASSERT_EQ(c.logprobs(i).top_size(), 1);
      EXPECT_EQ(c.logprobs(i).top(0).token_id(), c.token_ids(i));
      EXPECT_LE(c.logprobs(i).top(0).logprob(), 0);
      sum += c.logprobs(i).top(0).logprob();
    }
    EXPECT_NEAR(sum, c.cumulative_logprob(), 1e-4);
  }
  ASSERT_GT(beams.prompt_logprobs_size(), 0);
  ASSERT_EQ(beams.prompt_logprobs_size(), greedy.prompt_logprobs_size());
  for (int i = 0; i < beams.prompt_logprobs_size(); ++i) {
    ASSERT_EQ(beams.prompt_logprobs(i).top_size(), 3);
    for (int k = 0; k < 3; ++k)
      EXPECT_NEAR(beams.prompt_logprobs(i).top(k).logprob(),
                  greedy.prompt_logprobs(i).top(k).logprob(), 1e-4);
  }
}

}  // namespace
}  // namespace tandem::sampling_test
