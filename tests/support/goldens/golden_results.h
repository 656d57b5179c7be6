// What an engine says to the generations of a golden checkpoint, as JSON that can be compared.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::testing {

using nlohmann::json;

// By request, its sequences: their tokens, scores and log-probabilities.
using Results = std::map<std::string, json>;

// A case of generated_cases() as a request.
inline void add_case(LLMEngine& engine, const json& c) {
  json prompt = {{"encoder_prompt", {{"prompt_token_ids", c.at("encoder_ids")}}}};
  if (c.contains("decoder_prompt_ids"))
    prompt["decoder_prompt"] = {{"prompt_token_ids", c.at("decoder_prompt_ids")}};
  engine.add_request(c.at("name"), prompt, c.at("generation"));
}

// Steps until nothing is left. Adds up how often requests made room, if `preemptions` is given.
inline void finish_cases(LLMEngine& engine, Results& results, int* preemptions = nullptr) {
  for (int i = 0; engine.has_unfinished_requests(); ++i) {
    ASSERT_LT(i, 100000) << "no progress";
    for (const auto& output : engine.step()) {
      if (!output.finished()) continue;
      if (preemptions != nullptr) *preemptions += output.metrics().num_preemptions();
      json& sequences = results[output.request_id()];
      for (const auto& o : output.outputs())
        sequences.push_back(
            {{"tokens", std::vector<int>(o.token_ids().begin(), o.token_ids().end())},
             {"score", o.score()},
             {"cumulative_logprob", o.cumulative_logprob()}});
    }
  }
  engine.check_integrity();
}

inline Results one_by_one(const EngineConfig& config, const std::vector<json>& cases) {
  LLMEngine engine(config);
  EXPECT_EQ(name_of(engine.dtype()), config.loading().dtype());
  Results results;
  for (const json& c : cases) {
    add_case(engine, c);
    finish_cases(engine, results);
  }
  EXPECT_EQ(results.size(), cases.size());
  return results;
}

// In an order that the seed chooses.
inline Results together(const EngineConfig& config, std::vector<json> cases, uint32_t seed,
                        int* preemptions = nullptr) {
  std::mt19937 random(seed);
  std::shuffle(cases.begin(), cases.end(), random);
  LLMEngine engine(config);
  Results results;
  for (const json& c : cases) add_case(engine, c);
  finish_cases(engine, results, preemptions);
  return results;
}

}  // namespace tandem::testing
