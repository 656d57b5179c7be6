// An engine run over the generations of a golden checkpoint.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/goldens/golden_results.h"

namespace tandem::testing {

using Ids = std::vector<int>;

// HuggingFace pads what ends before the longest; beams with their end token where pad is token 0.
inline Ids unpadded(Ids ids, const ModelConfig& config) {
  while (ids.size() > 1 && ids.back() == config.pad_token_id) ids.pop_back();
  const bool by_end = config.pad_token_id == 0 && !config.eos_token_id.empty();
  while (by_end && ids.size() > 1 && ids.back() == config.eos_token_id.front() &&
         ids[ids.size() - 2] == ids.back())
    ids.pop_back();
  return ids;
}

inline void expect_golden(const json& c, const proto::RequestOutput& got,
                          const ModelConfig& config) {
  const json expected =
      c.contains("sequences") ? c.at("sequences") : json::array({c.at("output_ids")});
  ASSERT_EQ(static_cast<size_t>(got.outputs_size()), expected.size());
  for (int i = 0; i < got.outputs_size(); ++i) {
    Ids ids(got.inputs().prompt_token_ids().begin(), got.inputs().prompt_token_ids().end());
    ids.insert(ids.end(), got.outputs(i).token_ids().begin(), got.outputs(i).token_ids().end());
    EXPECT_EQ(unpadded(ids, config), unpadded(expected[static_cast<size_t>(i)].get<Ids>(), config));
    EXPECT_NE(got.outputs(i).finish_reason(), "");
    if (!c.contains("sequences_scores")) continue;
    ASSERT_TRUE(got.outputs(i).has_score());
    EXPECT_NEAR(got.outputs(i).score(), c.at("sequences_scores")[static_cast<size_t>(i)], 2e-3);
  }
}

// All of them, or `most` that the seed chooses, in its order.
inline void expect_goldens(const EngineConfig& config, const std::string& checkpoint, uint32_t seed,
                           size_t most = SIZE_MAX) {
  LLMEngine engine(config);
  std::vector<json> cases = generated_cases(checkpoint);
  std::mt19937 random(seed);
  std::shuffle(cases.begin(), cases.end(), random);
  if (cases.size() > most) cases.resize(most);
  for (const json& c : cases) add_case(engine, c);
  std::map<std::string, proto::RequestOutput> results;
  for (int i = 0; engine.has_unfinished_requests(); ++i) {
    ASSERT_LT(i, 100000) << "no progress";
    for (const auto& output : engine.step())
      if (output.finished()) results[output.request_id()] = output;
    engine.check_integrity();
  }
  for (const json& c : cases) {
    const std::string name = c.at("name");
    SCOPED_TRACE(checkpoint + ", " + name);
    ASSERT_EQ(results.count(name), 1u);
    expect_golden(c, results.at(name), engine.model_config());
  }
}

}  // namespace tandem::testing
