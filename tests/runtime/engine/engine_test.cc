// The engine end to end on golden checkpoints: HuggingFace's tokens whatever else shares the batch,
// however small the steps and the cache are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>

#include "runtime/engine/llm_engine.h"
#include "tests/support/goldens/golden_config.h"
#include "tests/support/goldens/golden_families.h"
#include "tests/support/sanitized.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr int kTrials = testing_support::kSanitized ? 30 : 200;

// scripts/test --long simulation runs more.
int trials() {
  const char* text = std::getenv("TANDEM_INVARIANCE_TRIALS");
  return text == nullptr ? kTrials : std::stoi(text);
}

EngineConfig config_for(const std::string& checkpoint) {
  EngineConfig config = testing::golden_config(checkpoint);
  config.mutable_loading()->set_threads(2);
  return config;
}

json golden_prompt(const json& c) {
  return {{"encoder_prompt", {{"prompt_token_ids", c.at("encoder_ids")}}},
          {"decoder_prompt", {{"prompt_token_ids", c.at("decoder_prompt_ids")}}}};
}

// Cases of one sequence; those of beams are in beam_goldens_test.cc.
std::vector<json> single_sequence_cases(const std::string& checkpoint) {
  std::vector<json> cases;
  const json golden = testing::load_golden(checkpoint);
  for (const auto& c : golden.at("cases"))
    if (c.contains("output_ids") && !c.contains("sequences")) cases.push_back(c);
  EXPECT_GE(cases.size(), 10u) << checkpoint;
  return cases;
}

// Room for the longest request, and a little more.
int few_blocks(const std::string& checkpoint, int block_size) {
  size_t longest = 64;
  for (const json& c : single_sequence_cases(checkpoint))
    longest = std::max({longest, c.at("encoder_ids").size(), c.at("output_ids").size()});
  return 2 * (static_cast<int>(longest) / block_size) + 4;
}

// Runs all to the end; request id → the whole decoder sequence.
std::map<std::string, std::vector<int>> run_all(LLMEngine& engine) {
  std::map<std::string, std::vector<int>> out;
  int idle = 0;
  while (engine.has_unfinished_requests()) {
    const auto outputs = engine.step();
    engine.check_integrity();
    idle = outputs.empty() ? idle + 1 : 0;
    if (idle > 10000) {
      ADD_FAILURE() << "no progress";
      break;
    }
    for (const auto& o : outputs) {
      if (!o.finished()) continue;
      std::vector<int> ids(o.inputs().prompt_token_ids().begin(),
                           o.inputs().prompt_token_ids().end());
      ids.insert(ids.end(), o.outputs(0).token_ids().begin(), o.outputs(0).token_ids().end());
      out[o.request_id()] = ids;
    }
  }
  return out;
}

void expect_goldens(LLMEngine& engine, std::vector<json> cases, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::shuffle(cases.begin(), cases.end(), rng);
  for (const auto& c : cases)
    engine.add_request(c.at("name").get<std::string>(), golden_prompt(c), c.at("generation"));
  const auto results = run_all(engine);
  for (const auto& c : cases)
    EXPECT_EQ(results.at(c.at("name").get<std::string>()),
              c.at("output_ids").get<std::vector<int>>())
        << c.at("name") << ", seed " << seed;
}

class EngineGoldens : public ::testing::TestWithParam<const char*> {};

TEST_P(EngineGoldens, AllAtOnceInAnyOrder) {
  LLMEngine engine(config_for(GetParam()));
  for (uint64_t seed = 1; seed <= 3; ++seed)
    expect_goldens(engine, single_sequence_cases(GetParam()), seed);
}

TEST_P(EngineGoldens, OneByOne) {
  LLMEngine engine(config_for(GetParam()));
  for (const auto& c : single_sequence_cases(GetParam())) expect_goldens(engine, {c}, 0);
}

TEST_P(EngineGoldens, CutAsFineAsTheRulesAllow) {
  EngineConfig config = config_for(GetParam());
  config.mutable_scheduling()->set_max_num_batched_tokens(1);
  config.mutable_scheduling()->set_max_num_seqs(3);
  config.mutable_cache()->set_block_size(1);
  LLMEngine engine(config);
  expect_goldens(engine, single_sequence_cases(GetParam()), 4);
}

TEST_P(EngineGoldens, CacheSoSmallThatGroupsArePreempted) {
  for (int i = 0; i < 8; ++i) {
    const auto mode = i % 2 == 0 ? PreemptionMode::kRecompute : PreemptionMode::kSwap;
    const int block_size = i % 4 < 2 ? 2 : 16;
    const bool caches = i >= 4;
    EngineConfig config = config_for(GetParam());
    config.mutable_cache()->set_block_size(block_size);
    config.mutable_scheduling()->set_preemption_mode(testing::preemption_name(mode));
    config.mutable_cache()->set_enable_encoder_cache(caches);
    config.mutable_cache()->set_enable_prefix_caching(caches);
    config.mutable_cache()->set_num_gpu_blocks_override(few_blocks(GetParam(), block_size));
    LLMEngine engine(config);
    // What is shared may leave room enough; short cases in large blocks do in some orders.
    const auto preempts = [&] { return engine.scheduler().num_preemptions() > 0; };
    for (uint64_t seed = 5; seed < 20 && !preempts(); ++seed) {
      expect_goldens(engine, single_sequence_cases(GetParam()), seed);
      if (caches) break;
    }
    EXPECT_TRUE(caches || preempts()) << block_size;
  }
}

// Each case twice: the second time nothing is found, everything, or what a small cache still has.
TEST_P(EngineGoldens, CachesChangeNothing) {
  const auto cases = single_sequence_cases(GetParam());
  for (const bool enabled : {false, true}) {
    EngineConfig config = config_for(GetParam());
    config.mutable_cache()->set_block_size(2);
    config.mutable_cache()->set_enable_encoder_cache(enabled);
    config.mutable_cache()->set_enable_prefix_caching(enabled);
    LLMEngine engine(config);
    const CacheStats& stats = engine.scheduler().block_manager().cache_stats();
    expect_goldens(engine, cases, 6);
    const CacheStats first = stats;
    expect_goldens(engine, cases, 7);
    EXPECT_EQ(stats.encoder_hits - first.encoder_hits,
              enabled ? static_cast<int64_t>(cases.size()) : 0);
  }
  EngineConfig config = config_for(GetParam());
  config.mutable_cache()->set_block_size(2);
  config.mutable_cache()->set_num_gpu_blocks_override(
      few_blocks(GetParam(), config.cache().block_size()));
  LLMEngine engine(config);
  for (const uint64_t seed : {8, 9}) expect_goldens(engine, cases, seed);
  EXPECT_GT(engine.scheduler().block_manager().cache_stats().evicted_blocks, 0);
}

INSTANTIATE_TEST_SUITE_P(Families, EngineGoldens, ::testing::ValuesIn(testing::text_goldens()),
                         testing::checkpoint_test_name);
INSTANTIATE_TEST_SUITE_P(Twins, EngineGoldens,
                         ::testing::Values("bart-odd", "bart-pickle", "bart-sharded"),
                         testing::checkpoint_test_name);

// --- Batch invariance ----------------------------------------------------------------------------

struct RandomRequest {
  json prompt, params;
};

RandomRequest random_request(std::mt19937_64& rng, int vocab_size) {
  const auto pick = [&](int from, int to) {
    return static_cast<int>(from + rng() % static_cast<uint64_t>(to - from + 1));
  };
  std::vector<int> encoder{0}, decoder{2};
  for (int i = pick(0, 24); i > 0; --i) encoder.push_back(pick(4, vocab_size - 2));
  encoder.push_back(2);
  for (int i = pick(0, 5); i > 0; --i) decoder.push_back(pick(4, vocab_size - 2));
  json params = {{"max_new_tokens", pick(1, 10)},
                 {"num_beams", std::max(1, pick(-3, 4))},
                 {"do_sample", pick(0, 2) == 0}};
  if (params["do_sample"])
    params.update({{"seed", pick(0, 1000)}, {"temperature", 0.9}, {"top_k", pick(0, 40)}});
  if (pick(0, 3) == 0) params["repetition_penalty"] = 1.2;
  if (pick(0, 3) == 0) params["no_repeat_ngram_size"] = 2;
  return {{{"encoder_prompt", {{"prompt_token_ids", encoder}}},
           {"decoder_prompt", {{"prompt_token_ids", decoder}}}},
          params};
}

TEST(BatchInvariance, SameTokensAloneAndAmongSixtyThreeOthers) {
  const uint64_t seed =
      std::getenv("TANDEM_SEED") ? std::strtoull(std::getenv("TANDEM_SEED"), nullptr, 10) : 7;
  SCOPED_TRACE("TANDEM_SEED=" + std::to_string(seed));
  std::mt19937_64 rng(seed);
  EngineConfig config = config_for("bart-odd-heads");
  config.mutable_scheduling()->set_max_num_batched_tokens(256);
  LLMEngine alone(config), together(config);
  std::vector<RandomRequest> pool;
  std::vector<std::vector<int>> expected;
  for (int i = 0; i < 200; ++i) {
    pool.push_back(random_request(rng, 700));
    alone.add_request("x", pool.back().prompt, pool.back().params);
    expected.push_back(run_all(alone).at("x"));
  }
  for (int trial = 0; trial < trials(); ++trial) {
    std::vector<size_t> chosen;
    for (int i = 0; i < 64; ++i) {
      chosen.push_back(rng() % pool.size());
      together.add_request(std::to_string(i), pool[chosen.back()].prompt,
                           pool[chosen.back()].params);
    }
    const auto results = run_all(together);
    for (int i = 0; i < 64; ++i)
      ASSERT_EQ(results.at(std::to_string(i)), expected[chosen[static_cast<size_t>(i)]])
          << "trial " << trial;
  }
}

// --- Requests ------------------------------------------------------------------------------------

TEST(Engine, DefaultDecoderPromptIsStartAndBos) {
  LLMEngine engine(config_for("bart-tiny"));
  engine.add_request("a", "The rain in spain falls mainly on the", {{"max_new_tokens", 3}});
  engine.add_request(
      "b", {{"encoder_prompt", "The rain"}, {"decoder_prompt", {{"prompt_token_ids", {51, 178}}}}},
      {{"max_new_tokens", 3}});
  std::map<std::string, proto::RequestOutput> results;
  while (engine.has_unfinished_requests())
    for (const auto& o : engine.step())
      if (o.finished()) results[o.request_id()] = o;
  const auto ids = [&](const char* id) {
    const auto& f = results.at(id).inputs().prompt_token_ids();
    return std::vector<int>(f.begin(), f.end());
  };
  EXPECT_EQ(ids("a"), (std::vector<int>{2, 0}));
  EXPECT_EQ(ids("b"), (std::vector<int>{2, 51, 178}));
  // The BOS that was put there is one of HuggingFace's three new tokens.
  EXPECT_LE(results.at("a").outputs(0).token_ids_size(), 2);
  EXPECT_EQ(results.at("b").outputs(0).token_ids_size(), 3);
}

TEST(Engine, SamplesSeveralSequencesFromOneEncoderPass) {
  LLMEngine engine(config_for("bart-tiny"));
  const json params = {
      {"n", 4}, {"do_sample", true}, {"seed", 5}, {"max_new_tokens", 12}, {"temperature", 1.5}};
  std::vector<std::vector<std::vector<int>>> runs;
  for (int i = 0; i < 2; ++i) {
    engine.add_request("r", "a small lighthouse", params);
    while (engine.has_unfinished_requests())
      for (const auto& o : engine.step()) {
        engine.check_integrity();
        if (!o.finished()) continue;
        ASSERT_EQ(o.outputs_size(), 4);
        runs.emplace_back();
        for (const auto& c : o.outputs())
          runs.back().emplace_back(c.token_ids().begin(), c.token_ids().end());
      }
  }
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0], runs[1]);        // the seed decides
  EXPECT_NE(runs[0][0], runs[0][1]);  // and the index too
}

TEST(Engine, PromptAndTokenLogprobsAgreeWithHuggingFace) {
  for (const char* checkpoint : {"bart-tiny", "bart-odd-heads"}) {
    LLMEngine engine(config_for(checkpoint));
    for (const auto& c : single_sequence_cases(checkpoint)) {
      if (!c.contains("prompt_logprobs") || !c.contains("token_logprobs_raw")) continue;
      // The teacher-forced sequence as decoder prompt.
      engine.add_request(
          "p",
          {{"encoder_prompt", {{"prompt_token_ids", c.at("encoder_ids")}}},
           {"decoder_prompt", {{"prompt_token_ids", c.at("teacher_forced_decoder_ids")}}}},
          {{"max_tokens", 1}, {"prompt_logprobs", 0}});
      engine.add_request("t", golden_prompt(c), [&] {
        json params = c.at("generation");
        params["logprobs"] = 2;
        return params;
      }());
      while (engine.has_unfinished_requests())
        for (const auto& o : engine.step()) {
          if (!o.finished()) continue;
          const bool prompt = o.request_id() == "p";
          const auto want =
              c.at(prompt ? "prompt_logprobs" : "token_logprobs_raw").get<std::vector<double>>();
          const auto& got = prompt ? o.prompt_logprobs() : o.outputs(0).logprobs();
          ASSERT_EQ(static_cast<size_t>(got.size()), want.size());
          for (int i = 0; i < got.size(); ++i)
            EXPECT_NEAR(got[i].top(0).logprob(), want[static_cast<size_t>(i)], 3e-4);
          if (!prompt) {
            EXPECT_NEAR(o.outputs(0).cumulative_logprob(),
                        std::accumulate(want.begin(), want.end(), 0.0), 2e-3);
          }
        }
    }
  }
}

// A decoder prompt that others had, whole or in part, and what an earlier request generated.
TEST(Engine, PrefixesThatAreFoundChangeNothing) {
  EngineConfig config = config_for("bart-tiny");
  config.mutable_cache()->set_block_size(2);
  LLMEngine cached(config);
  config.mutable_cache()->set_enable_encoder_cache(false);
  config.mutable_cache()->set_enable_prefix_caching(false);
  LLMEngine plain(config);
  const json params = {{"max_tokens", 6}, {"ignore_eos", true}};
  int64_t found = 0;
  for (const auto& c : single_sequence_cases("bart-tiny")) {
    if (!c.contains("teacher_forced_decoder_ids")) continue;
    const auto whole = c.at("teacher_forced_decoder_ids").get<std::vector<int>>();
    for (const size_t length : {whole.size(), whole.size(), whole.size() / 2 + 1, size_t{1}}) {
      const json prompt = {
          {"encoder_prompt", {{"prompt_token_ids", c.at("encoder_ids")}}},
          {"decoder_prompt",
           {{"prompt_token_ids", std::vector<int>(whole.begin(), whole.begin() + length)}}}};
      plain.add_request("r", prompt, params);
      cached.add_request("r", prompt, params);
      EXPECT_EQ(run_all(cached), run_all(plain)) << c.at("name") << ", " << length;
    }
    found = cached.scheduler().block_manager().cache_stats().prefix_hits;
  }
  EXPECT_GT(found, 20);
  EXPECT_EQ(plain.scheduler().block_manager().cache_stats().prefix_hits, 0);
}

TEST(Engine, SmallerPrioritiesGoFirst) {
  EngineConfig config = config_for("bart-tiny");
  config.mutable_scheduling()->set_max_num_seqs(1);
  LLMEngine engine(config);
  const std::vector<std::pair<std::string, int>> requests = {
      {"later", 1}, {"second", 0}, {"third", 0}, {"first", -1}};
  for (const auto& [id, priority] : requests)
    engine.add_request(id, "some text", {{"max_new_tokens", 3}}, priority);
  std::vector<std::string> ended;
  while (engine.has_unfinished_requests())
    for (const auto& output : engine.step())
      if (output.finished()) ended.push_back(output.request_id());
  EXPECT_EQ(ended, (std::vector<std::string>{"first", "second", "third", "later"}));
}

TEST(Engine, AbortFreesEverything) {
  LLMEngine engine(config_for("bart-tiny"));
  const int free_blocks = engine.scheduler().block_manager().device().num_free();
  for (int i = 0; i < 8; ++i)
    engine.add_request(std::to_string(i), "some text", {{"max_new_tokens", 50}});
  for (int i = 0; i < 3; ++i) engine.step();
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(engine.abort_request(std::to_string(i)));
  EXPECT_FALSE(engine.abort_request("3"));
  EXPECT_FALSE(engine.has_unfinished_requests());
  EXPECT_EQ(engine.scheduler().block_manager().device().num_free(), free_blocks);
  engine.check_integrity();
}

TEST(Engine, StopStringEndsTheTextBeforeIt) {
  LLMEngine engine(config_for("bart-tiny"));
  const json params = {{"max_new_tokens", 28}, {"num_beams", 1}};
  const auto run = [&](const json& p) {
    engine.add_request("s", "  leading and trailing spaces   ", p);
    proto::CompletionOutput result;
    while (engine.has_unfinished_requests())
      for (const auto& o : engine.step())
        if (o.finished()) result = o.outputs(0);
    return result;
  };
  const auto whole = run(params);
  ASSERT_GT(whole.text().size(), 8u);
  const std::string stop = whole.text().substr(5, 3);
  json with_stop = params;
  with_stop["stop"] = stop;
  const auto stopped = run(with_stop);
  EXPECT_EQ(stopped.text(), whole.text().substr(0, whole.text().find(stop)));
  EXPECT_EQ(stopped.finish_reason(), "stop");
  EXPECT_EQ(stopped.stop_reason(), stop);
  with_stop["include_stop_str_in_output"] = true;
  EXPECT_EQ(run(with_stop).text(), stopped.text() + stop);
}

}  // namespace
}  // namespace tandem
