// Parameters that are right alone and wrong together, said twice, or in a request that generates
// nothing.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tests/runtime/request/params/params_fixture.h"

namespace tandem::params_test {
namespace {

// What each value alone may be, but not both.
TEST(Params, BadCombinations) {
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"max_tokens", R"({"max_tokens": 5, "max_new_tokens": 5})"},
      {"max_tokens", R"({"max_tokens": 5, "max_length": 9})"},
      {"min_tokens", R"({"min_tokens": 2, "min_new_tokens": 2})"},
      {"min_tokens", R"({"min_tokens": 2, "min_length": 2})"},
      {"min_tokens", R"({"min_tokens": 6, "max_tokens": 5})"},
      {"temperature", R"({"do_sample": true, "temperature": 0})"},
      {"n", R"({"n": 2})"},
      {"n", R"({"n": 2, "temperature": 0})"},
      {"n", R"({"n": 2, "num_return_sequences": 3, "do_sample": true})"},
      {"n", R"({"n": 5, "num_beams": 4})"},
      {"n", R"({"n": 5, "num_beams": 4, "do_sample": true})"},
      {"num_return_sequences", R"({"num_return_sequences": 5, "num_beams": 4})"},
      {"num_return_sequences", R"({"num_return_sequences": 2})"},
      {"best_of", R"({"best_of": 2})"},
      {"best_of", R"({"best_of": 2, "temperature": 0})"},
      {"best_of", R"({"best_of": 2, "n": 3, "do_sample": true})"},
      {"best_of", R"({"best_of": 2, "num_return_sequences": 3, "do_sample": true})"},
      {"best_of", R"({"best_of": 3, "n": 2, "num_beams": 4})"},
      {"best_of", R"({"best_of": 3, "num_beams": 4, "do_sample": true})"},
      {"best_of", R"({"best_of": 1, "n": 2, "num_beams": 4})"},
      {"stop", R"({"stop": "a", "stop_strings": "b"})"},
      {"stop", R"({"stop": "a", "num_beams": 2})"},
      {"stop_strings", R"({"stop_strings": "a", "num_beams": 2})"},
      {"stop_token_ids", R"({"stop_token_ids": 3, "num_beams": 2})"},
      {"logprobs", R"({"logprobs": 1, "num_beams": 2})"},
      {"forced_bos_token_id", R"({"forced_bos_token_id": 4, "suppress_tokens": [4]})"},
      {"forced_eos_token_id", R"({"forced_eos_token_id": 4, "suppress_tokens": [4]})"},
      {"allowed_token_ids", R"({"allowed_token_ids": [4, 9], "suppress_tokens": [9, 3, 4]})"},
  };
  for (const auto& [name, params] : cases) {
    SCOPED_TRACE(params);
    expect_error(name, json_from<json>(params));
  }
  // HuggingFace warns, and goes on.
  EXPECT_NO_THROW(resolve({{"length_penalty", 2}, {"early_stopping", true}}));
  EXPECT_NO_THROW(resolve({{"do_sample", false}, {"temperature", 0.5}, {"top_k", 5}}));
}

TEST(Params, Scoring) {
  const ModelConfig config = bart(R"({"forced_eos_token_id": 2, "min_length": 9, "num_beams": 4,
                                      "no_repeat_ngram_size": 3, "suppress_tokens": [7]})");
  const ParamsResolver resolver(config, kVocab);
  const SamplingParams p = resolver.resolve_scoring(read_options({{"logprobs", 3}}), {5, false}, 7);
  EXPECT_EQ(p.max_tokens(), 1);
  EXPECT_EQ(p.n(), 1);
  ASSERT_EQ(p.forced_eos_token_id_size(), 1);
  EXPECT_EQ(p.forced_eos_token_id(0), 7);
  EXPECT_EQ(p.logprobs(), 3);
  EXPECT_EQ(p.prompt_logprobs(), 3);
  EXPECT_EQ(p.num_beams(), 1);  // nothing of the model's defaults
  EXPECT_EQ(p.min_tokens(), 0);
  EXPECT_EQ(p.suppress_tokens_size(), 0);
  EXPECT_EQ(resolver.resolve_scoring({}, {5, false}, 7).logprobs(), 0);
  EXPECT_NO_THROW(
      resolver.resolve_scoring(read_options({{"temperature", nullptr}}), {5, false}, 7));
  const json refused = {{"temperature", 1},  {"max_tokens", 5}, {"num_beams", 1}, {"stop", "x"},
                        {"use_cache", true}, {"logprobs", 101}, {"quux", 1}};
  for (const auto& [name, value] : refused.items()) try {
      resolver.resolve_scoring(read_options({{name, value}}), {5, false}, 7);
      ADD_FAILURE() << name;
    } catch (const InputError& error) {
      EXPECT_EQ(error.param(), name);
    }
  EXPECT_EQ(resolver.end_tokens({}), std::vector<int32_t>{2});
  EXPECT_EQ(resolver.end_tokens(read_options({{"eos_token_id", {4, 5}}})),
            (std::vector<int32_t>{4, 5}));
  EXPECT_TRUE(resolver.end_tokens(read_options({{"eos_token_id", nullptr}})).empty());
}

TEST(Params, TheLastBiasOfASequenceCounts) {
  const SamplingParams p = resolve(json_from<json>(
      R"({"sequence_bias": [[[5, 6], 2], [[7], 1], [[5, 6], -3], [[8], 4], [[7], 0.5]]})"));
  ASSERT_EQ(p.sequence_bias_size(), 3);
  EXPECT_EQ(p.sequence_bias(0).ids(0), 7);  // single tokens first: the order of its sums
  EXPECT_EQ(p.sequence_bias(0).bias(), 0.5);
  EXPECT_EQ(p.sequence_bias(1).ids(0), 8);
  EXPECT_EQ(p.sequence_bias(2).ids(1), 6);
  EXPECT_EQ(p.sequence_bias(2).bias(), -3);
}

}  // namespace
}  // namespace tandem::params_test
