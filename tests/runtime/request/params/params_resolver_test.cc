// Resolution of parameters: lengths as HuggingFace counts them, when to sample, defaults,
// conflicts.
#include "runtime/request/params/params_resolver.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/runtime/request/params/params_fixture.h"

namespace tandem::params_test {
namespace {

// --- lengths -----------------------------------------------------------------------------------

struct LengthCase {
  const char* generation;
  const char* params;
  PromptLengths lengths;
  int max_tokens, min_tokens, min_tokens_stop;
};

TEST(Params, LengthsAsHuggingFaceCounts) {
  const PromptLengths prompt5{5, false};
  const LengthCase cases[] = {
      // Nothing said: 20 new tokens, of which a default BOS is one.
      {"{}", "{}", kDefaultPrompt, 19, 0, 0},
      {"{}", "{}", kStartOnly, 20, 0, 0},
      {"{}", "{}", prompt5, 20, 0, 0},
      {"{}", R"({"max_length": null, "max_new_tokens": null})", kStartOnly, 64, 0, 0},
      // The request.
      {"{}", R"({"max_new_tokens": 10})", kDefaultPrompt, 9, 0, 0},
      {"{}", R"({"max_new_tokens": 10})", kStartOnly, 10, 0, 0},
      {"{}", R"({"max_new_tokens": 10})", prompt5, 10, 0, 0},
      {"{}", R"({"max_length": 10})", kDefaultPrompt, 8, 0, 0},
      {"{}", R"({"max_length": 10})", kStartOnly, 9, 0, 0},
      {"{}", R"({"max_length": 10})", prompt5, 5, 0, 0},
      {"{}", R"({"max_length": 10, "max_new_tokens": 8})", prompt5, 8, 0, 0},
      {"{}", R"({"max_length": 10, "max_new_tokens": null})", prompt5, 5, 0, 0},
      {"{}", R"({"max_tokens": 10})", kDefaultPrompt, 10, 0, 0},
      {"{}", R"({"max_tokens": 10})", prompt5, 10, 0, 0},
      {"{}", R"({"max_tokens": null})", prompt5, 60, 0, 0},
      // vLLM's and OpenAI's name: more than there is room for is as much as there is.
      {"{}", R"({"max_tokens": 64})", kDefaultPrompt, 63, 0, 0},
      {"{}", R"({"max_tokens": 1000000000000})", prompt5, 60, 0, 0},
      {"{}", R"({"max_tokens": 9223372036854775807})", {64, false}, 1, 0, 0},
      // The last token is never fed: one more than positions fits.
      {"{}", R"({"max_length": 65})", kStartOnly, 64, 0, 0},
      {"{}", R"({"max_new_tokens": 64})", kDefaultPrompt, 63, 0, 0},
      // The model.
      {R"({"max_length": 30})", "{}", kDefaultPrompt, 28, 0, 0},
      {R"({"max_length": 30})", "{}", kStartOnly, 29, 0, 0},
      {R"({"max_length": 30})", R"({"max_length": 12})", kStartOnly, 11, 0, 0},
      {R"({"max_length": 30})", R"({"max_length": null})", kStartOnly, 64, 0, 0},
      {R"({"max_length": 30, "max_new_tokens": 7})", "{}", prompt5, 7, 0, 0},
      {R"({"max_length": 30, "max_new_tokens": 7})", R"({"max_new_tokens": null})", prompt5, 25, 0,
       0},
      {R"({"max_new_tokens": 7})", R"({"max_length": 30})", prompt5, 7, 0, 0},
      {R"({"max_new_tokens": 7})", R"({"max_length": 30, "max_new_tokens": null})", prompt5, 25, 0,
       0},
      {R"({"max_length": 1000})", "{}", kStartOnly, 64, 0, 0},
      {R"({"max_new_tokens": 1000})", "{}", prompt5, 60, 0, 0},
      {R"({"max_new_tokens": 1})", "{}", kDefaultPrompt, 1, 0, 0},
      {"{}", "{}", {60, false}, 5, 0, 0},
      {"{}", "{}", {64, false}, 1, 0, 0},
      // Minimum.
      {"{}", R"({"min_length": 8})", kDefaultPrompt, 19, 6, 0},
      {"{}", R"({"min_length": 8})", kStartOnly, 20, 7, 0},
      {"{}", R"({"min_length": 8})", {9, false}, 20, 0, 0},
      {"{}", R"({"min_new_tokens": 8})", kDefaultPrompt, 19, 7, 0},
      {"{}", R"({"min_new_tokens": 8})", prompt5, 20, 8, 0},
      {"{}", R"({"min_new_tokens": 3, "min_length": 18})", prompt5, 20, 3, 0},
      {"{}", R"({"min_tokens": 8})", kDefaultPrompt, 19, 8, 8},
      {"{}", R"({"min_length": 1000})", kStartOnly, 20, 20, 0},
      {R"({"min_length": 8})", "{}", kStartOnly, 20, 7, 0},
      {R"({"min_length": 8})", R"({"min_length": null})", kStartOnly, 20, 0, 0},
      {R"({"min_length": 8})", R"({"min_new_tokens": 2})", kStartOnly, 20, 2, 0},
      {R"({"min_length": 8})", R"({"min_tokens": 2})", kStartOnly, 20, 2, 2},
      {R"({"min_length": 8, "min_new_tokens": 3})", "{}", kStartOnly, 20, 3, 0},
      {R"({"min_length": 8, "min_new_tokens": 3})", R"({"min_length": 6})", kStartOnly, 20, 3, 0},
      {"{}", R"({"max_length": 64, "min_length": 64})", kStartOnly, 63, 63, 0},
  };
  for (const LengthCase& c : cases) {
    SCOPED_TRACE(std::string(c.generation) + " " + c.params + " prompt " +
                 std::to_string(c.lengths.decoder_prompt_len));
    const SamplingParams p = resolve(json_from<json>(c.params), c.generation, c.lengths);
    EXPECT_EQ(p.max_tokens(), c.max_tokens);
    EXPECT_EQ(p.min_tokens(), c.min_tokens);
    EXPECT_EQ(p.min_tokens_stop(), c.min_tokens_stop);
  }
}

TEST(Params, LengthsThatCannotBe) {
  const InputError large = error_of({{"max_new_tokens", 65}});
  EXPECT_EQ(large.kind(), ErrorKind::kResource);
  EXPECT_NE(std::string(large.what()).find("64"), std::string::npos) << large.what();
  EXPECT_EQ(error_of({{"max_length", 5}}, "{}", {5, false}).param(), "max_length");
  EXPECT_EQ(error_of({}, R"({"max_length": 5})", {5, false}).param(), "max_length");
  const InputError prompt = error_of({}, "{}", {65, false});
  EXPECT_EQ(prompt.param(), "decoder_prompt");
  EXPECT_NE(std::string(prompt.what()).find("65"), std::string::npos) << prompt.what();
  expect_error("max_tokens", {{"max_tokens", 5}, {"max_new_tokens", 5}});
  expect_error("max_tokens", {{"max_tokens", 5}, {"max_length", 5}});
  expect_error("min_tokens", {{"min_tokens", 5}, {"min_length", 5}});
  expect_error("min_tokens", {{"min_tokens", 5}, {"min_new_tokens", 5}});
  expect_error("min_tokens", {{"min_tokens", 5}, {"max_tokens", 4}});
  EXPECT_NO_THROW(resolve({{"max_tokens", 5}, {"max_new_tokens", nullptr}}));
}

TEST(Params, ModelsWithoutATableOfPositions) {
  ModelConfig config = bart();
  config.max_position_embeddings = 0;
  const ParamsResolver resolver(config, kVocab);
  EXPECT_EQ(resolver.resolve(read_options({{"max_tokens", 100000}}), kStartOnly).max_tokens(),
            100000);
  EXPECT_THROW(resolver.resolve(read_options({{"max_new_tokens", int64_t{1} << 40}}), kStartOnly),
               InputError);
}

// --- sampling ----------------------------------------------------------------------------------

TEST(Params, WhenToSample) {
  const auto samples = [](const char* params, const char* generation = "{}") {
    return resolve(json_from<json>(params), generation).do_sample();
  };
  EXPECT_FALSE(samples("{}"));
  EXPECT_TRUE(samples("{}", R"({"do_sample": true})"));
  EXPECT_FALSE(samples(R"({"do_sample": null})", R"({"do_sample": true})"));
  EXPECT_FALSE(samples(R"({"do_sample": false, "temperature": 0.7})"));
  EXPECT_TRUE(samples(R"({"do_sample": true})"));
  EXPECT_TRUE(samples(R"({"temperature": 1})"));
  EXPECT_TRUE(samples(R"({"temperature": 0.7})", R"({"do_sample": false})"));
  EXPECT_FALSE(samples(R"({"temperature": 0})"));
  EXPECT_FALSE(samples(R"({"temperature": 0, "top_p": 0.9})", R"({"do_sample": true})"));
  EXPECT_TRUE(samples(R"({"top_p": 0.9})"));
  EXPECT_TRUE(samples(R"({"top_k": 5})"));
  EXPECT_TRUE(samples(R"({"min_p": 0.1})"));
  EXPECT_FALSE(samples(R"({"top_p": null})"));
  EXPECT_FALSE(samples(R"({"seed": 1})"));
  EXPECT_FALSE(samples("{}", R"({"temperature": 0.7})"));  // HuggingFace: greedy, with a warning
  expect_error("temperature", {{"do_sample", true}, {"temperature", 0}});
}

TEST(Params, SamplingDefaults) {
  const SamplingParams p = resolve({{"do_sample", true}});
  EXPECT_EQ(p.temperature(), 1);
  EXPECT_EQ(p.top_k(), 50);  // HuggingFace's
  EXPECT_EQ(p.top_p(), 1);
  EXPECT_EQ(p.min_p(), 0);
  EXPECT_FALSE(p.has_seed());
  EXPECT_EQ(
      resolve({{"do_sample", true}}, R"({"top_k": 7, "top_p": 0.8, "temperature": 2})").top_k(), 7);
  EXPECT_EQ(resolve({{"top_k", nullptr}, {"do_sample", true}}, R"({"top_k": 7})").top_k(), 0);
  EXPECT_EQ(resolve({{"top_k", -1}}).top_k(), 0);
  EXPECT_EQ(resolve({{"top_p", 0.9}}).top_p(), 0.9);  // not rounded to float
}

TEST(Params, Seeds) {
  const auto seed = [](const json& value) { return resolve({{"seed", value}}).seed(); };
  EXPECT_EQ(seed(7), 7u);
  EXPECT_EQ(seed(std::numeric_limits<uint64_t>::max() - 1),
            std::numeric_limits<uint64_t>::max() - 1);
  EXPECT_EQ(seed(-2), std::numeric_limits<uint64_t>::max() - 1);
  EXPECT_FALSE(resolve({{"seed", -1}}).has_seed());  // vLLM: none
  EXPECT_FALSE(resolve({{"seed", nullptr}}).has_seed());
}

TEST(Params, SeveralSequences) {
  EXPECT_EQ(resolve({{"n", 3}, {"temperature", 1}}).n(), 3);
  EXPECT_EQ(resolve({{"num_return_sequences", 3}, {"do_sample", true}}).n(), 3);
  EXPECT_EQ(resolve({{"n", 2}, {"num_return_sequences", 2}, {"do_sample", true}}).n(), 2);
  expect_error("n", {{"n", 2}, {"num_return_sequences", 3}, {"do_sample", true}});
  expect_error("n", {{"n", 2}}, "greedy");
  expect_error("num_return_sequences", {{"num_return_sequences", 2}, {"do_sample", false}},
               "greedy");
}

TEST(Params, BestOf) {
  const SamplingParams p = resolve({{"best_of", 4}, {"n", 2}, {"temperature", 1}});
  EXPECT_EQ(p.best_of(), 4);
  EXPECT_EQ(p.n(), 2);
  EXPECT_EQ(resolve({{"best_of", 4}, {"num_return_sequences", 2}, {"do_sample", true}}).n(), 2);
  // As many as are returned: the order is that of indices, as without it.
  EXPECT_EQ(resolve({{"best_of", 2}, {"n", 2}, {"temperature", 1}}).best_of(), 0);
  EXPECT_EQ(resolve({{"best_of", nullptr}}).best_of(), 0);
  EXPECT_EQ(resolve({{"best_of", 1}, {"num_beams", 4}}).best_of(), 0);
  EXPECT_EQ(resolve({{"best_of", 3}, {"n", 3}, {"num_beams", 4}}).best_of(), 0);
  EXPECT_NE(std::string(error_of({{"best_of", 4}}, R"({"num_beams": 4})").what())
                .find("model's defaults"),
            std::string::npos);
}

TEST(Params, Beams) {
  EXPECT_EQ(resolve({{"num_beams", 4}}).num_beams(), 4);
  EXPECT_EQ(resolve({}, R"({"num_beams": 4})").num_beams(), 4);
  EXPECT_EQ(resolve({{"num_beams", 4}, {"num_return_sequences", 4}}).n(), 4);
  EXPECT_EQ(resolve({{"num_beams", 4}, {"n", 3}, {"do_sample", true}}).n(), 3);
  expect_error("num_return_sequences", {{"num_beams", 4}, {"num_return_sequences", 5}}, "4 beams");
  expect_error("n", {{"num_beams", 2}, {"n", 3}}, "2 beams");
  EXPECT_EQ(resolve({{"num_beams", 2}, {"logprobs", 0}}).logprobs(), 0);
  EXPECT_EQ(resolve({{"num_beams", 2}, {"prompt_logprobs", 3}}).prompt_logprobs(), 3);
  const json refused = {{"stop", "x"}, {"stop_token_ids", {3}}, {"logprobs", 1}};
  for (const auto& [name, value] : refused.items()) {
    const InputError error = error_of({{"num_beams", 2}, {name, value}});
    EXPECT_EQ(error.param(), name);
    EXPECT_EQ(error.kind(), ErrorKind::kNotSupported);
  }
  const InputError by_default = error_of({{"stop", "x"}}, R"({"num_beams": 4})");
  EXPECT_NE(std::string(by_default.what()).find("model's defaults"), std::string::npos);
  EXPECT_EQ(resolve({{"num_beams", 1}}, R"({"num_beams": 4})").num_beams(), 1);
  EXPECT_EQ(resolve({{"num_beams", nullptr}}, R"({"num_beams": 4})").num_beams(), 1);
}

// --- the rest ----------------------------------------------------------------------------------

TEST(Params, TokensAndPenaltiesReachTheMessage) {
  const SamplingParams p = resolve(json_from<json>(R"({
    "repetition_penalty": 1.5, "encoder_repetition_penalty": 1.25, "presence_penalty": 0.5, "frequency_penalty": -0.5,
    "no_repeat_ngram_size": 3, "encoder_no_repeat_ngram_size": 2, "bad_words_ids": [[5], [6, 7]],
    "suppress_tokens": [8], "begin_suppress_tokens": [9], "forced_bos_token_id": 4, "forced_eos_token_id": [2, 3],
    "eos_token_id": [2, 3], "stop_token_ids": [10], "stop": ["x", "y"], "ignore_eos": true,
    "include_stop_str_in_output": true, "skip_special_tokens": false, "logprobs": 3, "prompt_logprobs": true,
    "logit_bias": {"5": -1}, "sequence_bias": [[[5, 6], 2]], "exponential_decay_length_penalty": [4, 1.5],
    "renormalize_logits": true, "remove_invalid_values": true, "typical_p": 0.9, "epsilon_cutoff": 0.1,
    "eta_cutoff": 0.2, "top_h": 0.3, "min_p": 0.05, "length_penalty": 2, "early_stopping": "never"})"));
  EXPECT_EQ(p.repetition_penalty(), 1.5);
  EXPECT_EQ(p.encoder_repetition_penalty(), 1.25);
  EXPECT_EQ(p.presence_penalty(), 0.5);
  EXPECT_EQ(p.frequency_penalty(), -0.5);
  EXPECT_EQ(p.no_repeat_ngram_size(), 3);
  EXPECT_EQ(p.encoder_no_repeat_ngram_size(), 2);
  ASSERT_EQ(p.bad_words_ids_size(), 2);
  EXPECT_EQ(p.bad_words_ids(1).ids(1), 7);
  EXPECT_EQ(p.suppress_tokens(0), 8);
  EXPECT_EQ(p.begin_suppress_tokens(0), 9);
  EXPECT_EQ(p.forced_bos_token_id(), 4);
  EXPECT_EQ(p.forced_eos_token_id(1), 3);
  EXPECT_EQ(p.eos_token_id(1), 3);
  EXPECT_EQ(p.stop_token_ids(0), 10);
  EXPECT_EQ(p.stop(1), "y");
  EXPECT_TRUE(p.ignore_eos());
  EXPECT_TRUE(p.include_stop_str_in_output());
  EXPECT_FALSE(p.skip_special_tokens());
  EXPECT_EQ(p.logprobs(), 3);
  EXPECT_EQ(p.prompt_logprobs(), 0);
  EXPECT_EQ(p.logit_bias().at(5), -1);
  EXPECT_EQ(p.sequence_bias(0).bias(), 2);
  EXPECT_EQ(p.sequence_bias(0).ids(1), 6);
  EXPECT_EQ(p.exponential_decay_length_penalty().start_length(),
            5);  // [start, bos]: one counts as prompt
  EXPECT_EQ(p.exponential_decay_length_penalty().factor(), 1.5);
  EXPECT_TRUE(p.renormalize_logits());
  EXPECT_TRUE(p.remove_invalid_values());
  EXPECT_EQ(p.typical_p(), 0.9);
  EXPECT_EQ(p.epsilon_cutoff(), 0.1);
  EXPECT_EQ(p.eta_cutoff(), 0.2);
  EXPECT_EQ(p.top_h(), 0.3);
  EXPECT_EQ(p.min_p(), 0.05);
  EXPECT_EQ(p.length_penalty(), 2);
  EXPECT_EQ(p.early_stopping(), SamplingParams::EARLY_STOPPING_NEVER);
}

TEST(Params, Defaults) {
  const SamplingParams p = resolve({});
  EXPECT_EQ(p.n(), 1);
  EXPECT_EQ(p.repetition_penalty(), 1);
  EXPECT_EQ(p.encoder_repetition_penalty(), 1);
  EXPECT_EQ(p.length_penalty(), 1);
  EXPECT_EQ(p.num_beams(), 1);
  EXPECT_TRUE(p.skip_special_tokens());
  EXPECT_FALSE(p.include_stop_str_in_output());
  EXPECT_FALSE(p.has_logprobs());
  EXPECT_FALSE(p.has_prompt_logprobs());
  EXPECT_FALSE(p.has_forced_bos_token_id());
  ASSERT_EQ(p.eos_token_id_size(), 1);  // of config.json
  EXPECT_EQ(p.eos_token_id(0), 2);
}

TEST(Params, NullSwitchesTheModelsOptionsOff) {
  constexpr const char* kModel =
      R"({"forced_bos_token_id": 0, "forced_eos_token_id": 2, "no_repeat_ngram_size": 3,
    "repetition_penalty": 2, "suppress_tokens": [5], "bad_words_ids": [[7]], "eos_token_id": 3})";
  const SamplingParams on = resolve({}, kModel);
  EXPECT_TRUE(on.has_forced_bos_token_id());
  EXPECT_EQ(on.forced_eos_token_id(0), 2);
  EXPECT_EQ(on.no_repeat_ngram_size(), 3);
  EXPECT_EQ(on.repetition_penalty(), 2);
  EXPECT_EQ(on.eos_token_id(0), 3);
  const SamplingParams off =
      resolve(json_from<json>(R"({"forced_bos_token_id": null, "forced_eos_token_id": null,
    "no_repeat_ngram_size": null, "repetition_penalty": null, "suppress_tokens": null, "bad_words_ids": null,
    "eos_token_id": null})"),
              kModel);
  EXPECT_FALSE(off.has_forced_bos_token_id());
  EXPECT_EQ(off.forced_eos_token_id_size(), 0);
  EXPECT_EQ(off.no_repeat_ngram_size(), 0);
  EXPECT_EQ(off.repetition_penalty(), 1);
  EXPECT_EQ(off.suppress_tokens_size(), 0);
  EXPECT_EQ(off.bad_words_ids_size(), 0);
  EXPECT_EQ(off.eos_token_id_size(), 0);
}

TEST(Params, BeginIndexStandsBehindAForcedBos) {
  EXPECT_EQ(resolve({}, "{}", kStartOnly).begin_index(), 1);
  EXPECT_EQ(resolve({{"forced_bos_token_id", 0}}, "{}", kStartOnly).begin_index(), 2);
  EXPECT_EQ(resolve({{"forced_bos_token_id", 0}}, "{}", kDefaultPrompt).begin_index(), 2);
  EXPECT_EQ(resolve({{"forced_bos_token_id", 0}}, "{}", {5, false}).begin_index(), 5);
}

TEST(Params, AForcedTokenMustNotBeSuppressed) {
  EXPECT_EQ(error_of({{"suppress_tokens", {2, 5}}}, R"({"forced_eos_token_id": 2})").param(),
            "forced_eos_token_id");
  EXPECT_EQ(error_of({{"suppress_tokens", {0}}, {"forced_bos_token_id", 0}}).param(),
            "forced_bos_token_id");
  EXPECT_NO_THROW(resolve({{"suppress_tokens", {2}}, {"forced_eos_token_id", {2, 3}}}));
}

TEST(Params, StopStringsOfEitherSide) {
  EXPECT_TRUE(resolve({{"stop_strings", "x"}}).include_stop_str_in_output());
  EXPECT_FALSE(resolve({{"stop_strings", "x"}, {"include_stop_str_in_output", false}})
                   .include_stop_str_in_output());
  EXPECT_FALSE(resolve({{"stop", "x"}}).include_stop_str_in_output());
  EXPECT_FALSE(resolve({{"stop", "x"}}, R"({"stop_strings": ["y"]})").include_stop_str_in_output());
  EXPECT_TRUE(resolve({{"stop_strings", "x"}}).stop_by_tokens());
  EXPECT_FALSE(resolve({{"stop", "x"}, {"include_stop_str_in_output", true}}).stop_by_tokens());
  expect_error("stop", {{"stop", "x"}, {"stop_strings", "y"}});
}

TEST(Params, GenerationConfigs) {
  // What is unknown, or vLLM's, or only about the returned object is passed over.
  EXPECT_NO_THROW(resolve(
      {},
      R"({"transformers_version": "5.23", "max_tokens": "x", "output_scores": true, "lang_to_id": {}})"));
  EXPECT_NO_THROW(resolve({}, "null"));
  // Ids that can never be generated are passed over where HuggingFace does so.
  EXPECT_EQ(resolve({}, R"({"eos_token_id": [2, 100, -1], "suppress_tokens": [100]})")
                .eos_token_id_size(),
            1);
  EXPECT_NO_THROW(resolve({}, R"({"pad_token_id": 100, "bos_token_id": -1})"));
  // A null of the model is no more than an absence where config.json knows better.
  EXPECT_EQ(resolve({}, R"({"eos_token_id": null})").eos_token_id_size(), 1);
  for (const char* wrong :
       {R"({"max_length": "x"})", R"({"forced_bos_token_id": 100})", R"({"top_p": 2})",
        R"({"bad_words_ids": [[100]]})", R"({"eos_token_id": true})"}) {
    const InputError error = error_of({}, wrong);
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel) << wrong;
    EXPECT_EQ(error.param(), "generation_config.json");
  }
  const InputError groups = error_of({}, R"({"num_beam_groups": 2})");
  EXPECT_EQ(groups.kind(), ErrorKind::kNotSupported);
  EXPECT_NO_THROW(resolve({{"num_beam_groups", nullptr}}, R"({"num_beam_groups": 2})"));
}

TEST(Params, PromptParams) {
  const ModelConfig config = bart();
  const ParamsResolver resolver(config, kVocab);
  EXPECT_FALSE(resolver.prompt_params({}).truncate_prompt_tokens);
  EXPECT_EQ(
      resolver.prompt_params(read_options({{"truncate_prompt_tokens", 5}})).truncate_prompt_tokens,
      5);
  EXPECT_EQ(
      resolver.prompt_params(read_options({{"truncate_prompt_tokens", -1}})).truncate_prompt_tokens,
      kPositions);
  EXPECT_THROW(read_options({{"truncate_prompt_tokens", 0}}), InputError);
}

TEST(Params, StartAndBos) {
  const auto bos = [](const json& params, const char* generation = "{}") {
    const ModelConfig config = bart(generation);
    return ParamsResolver(config, kVocab).default_bos(read_options(params));
  };
  EXPECT_EQ(bos({}), 0);
  EXPECT_EQ(bos({}, R"({"forced_bos_token_id": 7})"), 7);
  EXPECT_EQ(bos({{"forced_bos_token_id", 8}}, R"({"forced_bos_token_id": 7})"), 8);
  EXPECT_EQ(
      bos({{"forced_bos_token_id", nullptr}}, R"({"forced_bos_token_id": 7, "bos_token_id": 3})"),
      3);
  EXPECT_EQ(bos({{"bos_token_id", nullptr}}), -1);
  const auto start = [](const json& params, const char* generation = "{}") {
    const ModelConfig config = bart(generation);
    return ParamsResolver(config, kVocab).decoder_start(read_options(params));
  };
  EXPECT_EQ(start({}), 2);
  EXPECT_EQ(start({{"decoder_start_token_id", 5}}, R"({"decoder_start_token_id": 4})"), 5);
  EXPECT_EQ(start({}, R"({"decoder_start_token_id": 4})"), 4);
  ModelConfig config = bart();
  config.decoder_start_token_id = -1;
  EXPECT_EQ(ParamsResolver(config, kVocab).decoder_start({}), 0);  // HuggingFace: bos then
}

}  // namespace
}  // namespace tandem::params_test
