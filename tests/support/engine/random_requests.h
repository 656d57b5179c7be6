// Random requests for one engine and another that must say the same: whatever can be asked for, of
// texts that repeat themselves and their sources.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "runtime/engine/llm_engine.h"

namespace tandem::testing {

struct Asked {
  nlohmann::json prompt, params;
};

class RandomRequests {
 public:
  RandomRequests(uint64_t seed, int vocab_size) : rng_(seed), vocab_size_(vocab_size) {}

  // Few different tokens: texts repeat themselves, and their sources.
  Asked next() {
    using nlohmann::json;
    std::vector<int> words, encoder{0}, decoder{2};
    for (int i = 0; i < 6; ++i) words.push_back(pick(4, vocab_size_ - 2));
    for (int i = pick(1, 24); i > 0; --i) encoder.push_back(words[size_t(pick(0, 5))]);
    encoder.push_back(2);
    for (int i = pick(0, 5); i > 0; --i) decoder.push_back(words[size_t(pick(0, 5))]);
    const int most = pick(1, 40);
    json params = {{"max_new_tokens", most}};
    if (one_in(3)) sample(params);
    if (one_in(2)) params["allowed_token_ids"] = words;
    if (one_in(2)) params["logprobs"] = pick(0, 3);
    if (one_in(3)) params["repetition_penalty"] = 1.0 + 0.1 * pick(-3, 3);
    if (one_in(4)) params["no_repeat_ngram_size"] = pick(2, 4);
    if (one_in(4)) params["encoder_no_repeat_ngram_size"] = 3;
    if (one_in(4)) params["frequency_penalty"] = 0.3;
    if (one_in(4)) params["min_new_tokens"] = pick(1, most);
    if (one_in(4)) params["stop_token_ids"] = json::array({words[0]});
    if (one_in(4)) params["forced_eos_token_id"] = 2;
    if (one_in(4)) params["ignore_eos"] = true;
    if (one_in(4))
      params["bad_words_ids"] =
          json::array({json::array({words[1], words[2]}), json::array({words[3]})});
    if (one_in(8)) params = {{"max_new_tokens", most}, {"num_beams", 2}};
    return {{{"encoder_prompt", {{"prompt_token_ids", encoder}}},
             {"decoder_prompt", {{"prompt_token_ids", decoder}}}},
            params};
  }

 private:
  int pick(int from, int to) { return std::uniform_int_distribution(from, to)(rng_); }
  bool one_in(int n) { return pick(1, n) == 1; }

  void sample(nlohmann::json& params) {
    params.update(
        {{"do_sample", true}, {"seed", pick(0, 1000)}, {"temperature", 0.1 * pick(1, 10)}});
    if (one_in(2)) params["top_k"] = pick(1, 10);
    if (one_in(2)) params["top_p"] = 0.9;
    if (one_in(3)) params["n"] = pick(2, 3);
  }

  std::mt19937_64 rng_;
  int vocab_size_;
};

// All outputs, by request.
inline std::map<std::string, proto::RequestOutput> run_all(LLMEngine& engine,
                                                           const std::vector<Asked>& all) {
  for (size_t i = 0; i < all.size(); ++i)
    engine.add_request(std::to_string(i), all[i].prompt, all[i].params);
  std::map<std::string, proto::RequestOutput> out;
  for (int i = 0; engine.has_unfinished_requests(); ++i) {
    if (i == 100'000) {
      ADD_FAILURE() << "no progress";
      break;
    }
    for (proto::RequestOutput& output : engine.step()) {
      output.clear_metrics();
      out[output.request_id()] = std::move(output);
    }
    engine.check_integrity();
  }
  return out;
}

inline void expect_same(LLMEngine& plain, LLMEngine& drafting, const std::vector<Asked>& all) {
  const auto expected = run_all(plain, all), got = run_all(drafting, all);
  ASSERT_EQ(expected.size(), got.size());
  for (const auto& [id, output] : expected)
    ASSERT_EQ(got.at(id).DebugString(), output.DebugString())
        << all[std::stoul(id)].prompt << " " << all[std::stoul(id)].params;
}

}  // namespace tandem::testing
