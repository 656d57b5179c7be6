// Every name that a request's params may have: good and bad values, and the documentation.
#include "runtime/protocol/json/options_reader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/runtime/request/params/params_fixture.h"

namespace tandem::params_test {
namespace {

struct Parameter {
  std::vector<json> good, bad;  // besides null, which is always good
};

const double kNaN = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

std::map<std::string, Parameter> parameters() {
  const auto J = [](const char* text) { return json_from<json>(text); };
  const std::vector<json> not_numbers = {"x", true, J("[]"), J("{}"), J("[1]")};
  const auto integer = [&](std::vector<json> good, std::vector<json> bad) {
    bad.insert(bad.end(), not_numbers.begin(), not_numbers.end());
    for (const json& j : {json(1.5), json(kNaN), json(kInf), json(1e300),
                          json(std::numeric_limits<uint64_t>::max())})
      bad.push_back(j);
    return Parameter{good, bad};
  };
  const auto number = [&](std::vector<json> good, std::vector<json> bad) {
    bad.insert(bad.end(), not_numbers.begin(), not_numbers.end());
    for (const double v : {kNaN, kInf, -kInf}) bad.push_back(v);
    return Parameter{good, bad};
  };
  const Parameter boolean{{true, false}, {0, 1, 1.0, "true", J("[]"), J("{}")}};
  const Parameter short_name{{"x", std::string(256, 'x')},
                             {"", std::string(257, 'x'), 1, true, J("[]"), J("{}")}};
  Parameter token = integer({0, 99, 5.0}, {-1, 100, 1000000000000});
  token.good.push_back(J("[5]"));
  std::erase(token.bad, J("[1]"));
  token.bad.insert(token.bad.end(), {J("[1, 2]"), J("[[1]]"), J("[]"), J("[100]")});
  for (const char* bad : {"[100]", "[-1]", "[1, 2]", "[[1]]", "[\"x\"]"})
    token.bad.push_back(J(bad));
  const Parameter tokens{{7, J("[]"), J("[0, 99, 3.0]")},
                         {-1, 100, J("[100]"), J("[-1]"), J("[1.5]"), J("[true]"), J("[[1]]"), "x",
                          true, J("{}"), J("[18446744073709551615]"), J("[1e300]")}};
  const json many_stops = std::vector<std::string>(65, "x");
  const Parameter strings{
      {"a", J("[]"), J("[\"a\", \"b\"]"), std::vector<std::string>(64, "x")},
      {"", J("[\"\"]"), J("[1]"), 1, true, J("{}"), many_stops, std::string(1025, 'x')}};
  const Parameter logprobs = [&] {
    Parameter p = integer({0, 5, 100, 3.0, true, false}, {-1, 101});
    std::erase(p.bad, json(true));
    return p;
  }();
  const Parameter structured{
      {J("{}"), J("{\"regex\": \"a\"}"), J("{\"json\": {}, \"regex\": null}"),
       J("{\"json_object\": true}"), J("{\"json_object\": false}")},
      {1, "x", true, J("[]"), J("{\"regex\": 1}"), J("{\"structural_tag\": \"x\"}"),
       J("{\"regex\": \"a\", \"choice\": [\"b\"]}")}};
  return {
      {"max_length", integer({3, 10, 10.0, 65}, {0, -1, 1, 2, 66, 1000000000000})},
      {"max_new_tokens", integer({2, 10, 64}, {0, -1, 1, 65, 2147483648})},
      {"max_tokens", integer({1, 10, 63, 64, 9223372036854775807}, {0, -1})},
      {"min_length", integer({0, 10, 1000}, {-1})},
      {"min_new_tokens", integer({0, 10, 1000}, {-1})},
      {"min_tokens", integer({0, 10, 19}, {-1, 20, 1000})},
      {"max_time", number({0, 0.5, 1e6}, {-1, 1e10})},
      {"truncate_prompt_tokens", integer({1, 5, -1, 1000000}, {0, -2})},
      {"allow_empty_prompt", boolean},
      {"n", integer({1, 1.0}, {0, -1, 2, 10001})},
      {"best_of", integer({1}, {0, -1, 2, 10001})},  // more need sampling
      {"num_return_sequences", integer({1}, {0, -1, 2, 10001})},
      {"num_beams", integer({1, 2, 10000}, {0, -1, 10001})},
      {"do_sample", boolean},
      {"temperature", number({0, 1, 0.5, 100}, {-0.1, 1e-9, 1e7})},
      {"top_k", integer({-1, 0, 1, 50, 1000000}, {-2, 2147483648})},
      {"top_p", number({0, 0.5, 1}, {-0.1, 1.1})},
      {"min_p", number({0, 0.5, 1}, {-0.1, 1.1})},
      {"typical_p", number({0.5, 1}, {0, -0.1, 1.1})},
      {"epsilon_cutoff", number({0, 0.5}, {-0.1, 1})},
      {"eta_cutoff", number({0, 0.5}, {-0.1, 1})},
      {"top_h", number({0.5, 1}, {0, -0.1, 1.1})},
      {"seed",
       {{0, 1, -5, 3.0, std::numeric_limits<uint64_t>::max(), std::numeric_limits<int64_t>::min()},
        {1.5, 1e300, kNaN, "x", true, J("[]"), J("{}")}}},
      {"length_penalty", number({-1, 0, 2.5}, {1e4, -1e4})},
      {"early_stopping", {{true, false, "never"}, {0, 1, "always", J("[]")}}},
      {"repetition_penalty", number({0.5, 1, 2}, {0, -1, 1e7})},
      {"encoder_repetition_penalty", number({0.5, 1, 2}, {0, -1, 1e7})},
      {"presence_penalty", number({-2, 0, 2}, {-2.1, 2.1})},
      {"frequency_penalty", number({-2, 0, 2}, {-2.1, 2.1})},
      {"no_repeat_ngram_size", integer({0, 3}, {-1, 2147483648})},
      {"encoder_no_repeat_ngram_size", integer({0, 3}, {-1, 2147483648})},
      {"bad_words_ids",
       {{J("[]"), J("[[1], [2, 3]]")},
        {J("[[]]"), J("[1]"), J("[[100]]"), J("[[-1]]"), 1, "x", J("{}")}}},
      {"bad_words",
       {{"x", J("[]"), J("[\"x\", \" y\"]"), json(std::vector<std::string>(1024, "x"))},
        {"", " ", J("[\"x\", \"\"]"), J("[\"\\t\"]"), J("[5]"), J("[[1]]"), J("{}"), 1,
         json(std::vector<std::string>(1025, "x")), std::string(1025, 'x')}}},
      {"allowed_token_ids",
       {{J("[1]"), J("[99, 0, 99]")},
        {J("[]"), J("[100]"), J("[-1]"), J("[1.5]"), J("[true]"), 1, "x", J("{}"), J("[[1]]")}}},
      {"add_special_tokens", boolean},
      {"src_lang", short_name},
      {"source_lang", short_name},
      {"tgt_lang", short_name},
      {"target_lang", short_name},
      {"task", {{"t"}, {"", std::string(257, 'x'), 1, true, J("[]"), J("{}")}}},
      {"split",
       {{"auto", "sentences", "paragraphs", "none"}, {"", "words", 1, true, J("[]"), J("{}")}}},
      {"merge", {{"join", "summary"}, {"", "joined", 1, true, J("[]"), J("{}")}}},
      {"cache_salt", {{"x", std::string(1024, 'x')}, {"", std::string(1025, 'x'), 1, J("[]")}}},
      {"global_attention",
       {{J("[]"), J("[0]"), J("[7, 3, 3, 2147483647]")},
        {J("[-1]"), J("[2147483648]"), J("[1.5]"), J("[true]"), J("[[1]]"), 1, "x", J("{}")}}},
      {"suppress_tokens", tokens},
      {"begin_suppress_tokens", tokens},
      {"forced_eos_token_id", tokens},
      {"eos_token_id", tokens},
      {"stop_token_ids", tokens},
      {"forced_bos_token_id", token},
      {"bos_token_id", token},
      {"decoder_start_token_id", token},
      {"pad_token_id", token},
      {"renormalize_logits", boolean},
      {"remove_invalid_values", boolean},
      {"ignore_eos", boolean},
      {"include_stop_str_in_output", boolean},
      {"skip_special_tokens", boolean},
      {"return_timestamps", {{false}, boolean.bad}},  // this model's tokens say no times
      {"logit_bias",
       {{J("{}"), J("{\"3\": -100, \"99\": 1.5}")},
        {J("{\"100\": 1}"), J("{\"-1\": 1}"), J("{\"\": 1}"), J("{\"1x\": 1}"),
         J("{\"99999999999999999999\": 1}"), J("{\"3\": 101}"), J("{\"3\": true}"), J("[]"), 1}}},
      {"sequence_bias",
       {{J("[]"), J("[[[1, 2], -3.5]]")},
        {J("[[[], 1]]"), J("[[[100], 1]]"), J("[[1, 2]]"), J("[[[1]]]"), J("[[[1], \"x\"]]"),
         J("{}"), 1}}},
      {"exponential_decay_length_penalty",
       {{J("[5, 1.1]")},
        {J("[5]"), J("[5, 0]"), J("[-1, 1.1]"), J("[1.5, 1]"), J("[5, 1, 1]"), 1, J("{}")}}},
      {"stop", strings},
      {"stop_strings", strings},
      {"logprobs", logprobs},
      {"prompt_logprobs", logprobs},
      {"guided_regex", {{"a+", ""}, {1, true, J("[]"), J("{}"), std::string(300000, 'x')}}},
      {"guided_grammar", {{"root ::= \"a\""}, {1, true, J("[]"), J("{}")}}},
      {"guided_choice", {{J("[\"a\", \"\"]"), J("[]")}, {"a", 1, true, J("[1]"), J("{}")}}},
      {"guided_json", {{J("{}"), "{}", true}, {1, J("[]")}}},
      {"response_format",
       {{J("{\"type\": \"text\"}"), J("{\"type\": \"json_object\"}"),
         J("{\"type\": \"json_schema\", \"json_schema\": {\"schema\": {}}}")},
        {1, "x", J("[]"), J("{}"), J("{\"type\": \"xml\"}"), J("{\"type\": \"json_schema\"}")}}},
      {"structured_outputs", structured},
      {"guided_decoding", structured},
  };
}

// Names that resolve() accepts only with values that change nothing.
std::map<std::string, Parameter> not_built() {
  const auto J = [](const char* text) { return json_from<json>(text); };
  std::map<std::string, Parameter> all = {{"num_beam_groups", {{1}, {2, "x"}}},
                                          {"guidance_scale", {{1, 1.0}, {2.5}}},
                                          {"diversity_penalty", {{0, 0.0}, {0.5}}},
                                          {"penalty_alpha", {{0}, {0.6}}},
                                          {"logits_processors", {{J("[]")}, {J("[1]")}}},
                                          {"logits_processor", {{J("[]")}, {J("[1]")}}},
                                          {"logprob_token_ids", {{J("[]")}, {J("[1]")}}},
                                          {"extra_args", {{J("{}")}, {J("{\"a\": 1}")}}}};
  for (const char* name :
       {"constraints", "force_words_ids", "watermarking_config", "dola_layers",
        "assistant_early_exit", "assistant_model", "speculation_type", "custom_generate",
        "negative_prompt_ids", "prefix_allowed_tokens_fn", "stopping_criteria",
        "thinking_token_budget", "repetition_detection", "output_kind"})
    all[name] = {{}, {1, J("{\"a\": 1}"), "x"}};
  for (const char* name :
       {"token_healing", "use_mtp", "use_beam_search", "flat_logprobs", "output_scores",
        "output_logits", "output_attentions", "output_hidden_states"})
    all[name] = {{false}, {true}};
  for (const char* name : {"detokenize", "spaces_between_special_tokens"})
    all[name] = {{true}, {false}};
  return all;
}

const std::set<std::string> kWithoutEffect = {"use_cache",
                                              "prompt_lookup_num_tokens",
                                              "return_dict_in_generate",
                                              "cache_implementation",
                                              "cache_config",
                                              "max_cache_len",
                                              "low_memory",
                                              "compile_config",
                                              "disable_compile",
                                              "continuous_batching_config",
                                              "prefill_chunk_size",
                                              "synced_gpus",
                                              "num_assistant_tokens",
                                              "num_assistant_tokens_schedule",
                                              "assistant_confidence_threshold",
                                              "assistant_lookbehind",
                                              "target_lookbehind",
                                              "max_matching_ngram_size"};

TEST(Params, EveryNameIsTested) {
  std::set<std::string> tested = kWithoutEffect;
  for (const auto& [name, p] : parameters()) {
    tested.insert(name);
    EXPECT_FALSE(p.good.empty() || p.bad.empty()) << name;
  }
  for (const auto& [name, p] : not_built()) tested.insert(name);
  const std::vector<std::string> names = option_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()), tested);
}

TEST(Params, EveryNameIsDocumented) {
  std::ifstream file(std::string(TANDEM_SOURCE_DIR) + "/docs/parameters.md");
  std::ostringstream text;
  text << file.rdbuf();
  for (const std::string& name : option_names())
    EXPECT_NE(text.str().find("`" + name + "`"), std::string::npos) << name;
}

TEST(Params, GoodValues) {
  const ModelConfig config = bart();
  const ParamsResolver resolver(config, kVocab);
  for (const auto& [name, parameter] : parameters()) {
    std::vector<json> good = parameter.good;
    good.push_back(nullptr);
    for (const json& value : good)
      EXPECT_NO_THROW(resolver.resolve(read_options({{name, value}}), kDefaultPrompt))
          << name << " " << value;
  }
  for (const auto& [name, parameter] : not_built()) {
    std::vector<json> good = parameter.good;
    good.push_back(nullptr);
    for (const json& value : good)
      EXPECT_NO_THROW(resolver.resolve(read_options({{name, value}}), kDefaultPrompt))
          << name << " " << value;
  }
  for (const std::string& name : kWithoutEffect)
    EXPECT_NO_THROW(resolver.resolve(read_options({{name, true}}), kDefaultPrompt));
}

TEST(Params, BadValues) {
  for (const auto& [name, parameter] : parameters())
    for (const json& value : parameter.bad) {
      SCOPED_TRACE(name + " " + value.dump());
      expect_error(name, {{name, value}});
    }
  for (const auto& [name, parameter] : not_built())
    for (const json& value : parameter.bad) {
      SCOPED_TRACE(name + " " + value.dump());
      const InputError error = error_of({{name, value}});
      EXPECT_EQ(error.param(), name);
      EXPECT_EQ(error.kind(), ErrorKind::kNotSupported);
      EXPECT_NE(std::string(error.what()).find("not built"), std::string::npos);
    }
}

TEST(Params, ListsHaveBounds) {
  const json one = json::array({5});
  json many = json::array();
  for (size_t i = 0; i < kMaxIdLists; ++i) many.push_back(one);
  EXPECT_NO_THROW(resolve({{"bad_words_ids", many}}));
  many.push_back(one);
  expect_error("bad_words_ids", {{"bad_words_ids", many}});
  for (json& list : many) list = json::array({one, 1});
  expect_error("sequence_bias", {{"sequence_bias", many}});
  const json longest = std::vector<int>(kMaxIdsInList, 5);
  EXPECT_NO_THROW(resolve({{"bad_words_ids", json::array({longest})}}));
  const json longer = std::vector<int>(kMaxIdsInList + 1, 5);
  expect_error("bad_words_ids", {{"bad_words_ids", json::array({longer})}});
}

TEST(Params, UnknownNamesGetTheNearestOne) {
  expect_error("temprature", {{"temprature", 1}}, "did you mean temperature?");
  expect_error("maxNewTokens", {{"maxNewTokens", 1}}, "did you mean max_new_tokens?");
  expect_error("max-tokens", {{"max-tokens", 1}}, "did you mean max_tokens?");
  expect_error("tpo_p", {{"tpo_p", 1}}, "did you mean top_p?");
  const InputError far = error_of({{"quux_quux_quux", 1}});
  EXPECT_EQ(std::string(far.what()).find("did you mean"), std::string::npos);
  const InputError one = error_of({{"x", 1}});
  EXPECT_EQ(std::string(one.what()).find("did you mean"), std::string::npos);
  EXPECT_LT(std::string(error_of({{std::string(100000, 'x'), 1}}).what()).size(), 300u);
}

TEST(Params, DeepNestingIsJustAWrongType) {
  constexpr size_t kDepth = 200000;  // a copy would overflow the stack
  json params = json::object(),
       deep = json_from<json>(std::string(kDepth, '[') + std::string(kDepth, ']'));
  for (const std::string& name : option_names()) {
    params[name].swap(deep);
    if (kWithoutEffect.contains(name))
      EXPECT_NO_THROW(read_options(params)) << name;
    else
      EXPECT_THROW(read_options(params), InputError) << name;
    // A generation_config.json may be as odd.
    try {
      read_model_options(params, kVocab);
    } catch (const InputError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidModel);
    }
    params[name].swap(deep);
    params.clear();
  }
}

// Options that did not come out of JSON: those of a program that fills the message itself.
TEST(Params, WhatComesOverTheWireHasTheSameBounds) {
  using Options = proto::GenerationOptions;
  const auto error_of = [](const auto& fill) {
    Options options;
    fill(options);
    try {
      check_options(options);
    } catch (const InputError& error) {
      return error.param();
    }
    return std::string("none");
  };
  EXPECT_EQ(error_of([](Options& o) { o.set_top_p(2); }), "top_p");
  EXPECT_EQ(error_of([](Options& o) { o.set_temperature(std::nan("")); }), "temperature");
  EXPECT_EQ(error_of([](Options& o) { o.set_n(0); }), "n");
  EXPECT_EQ(error_of([](Options& o) { o.set_n(kMaxSequences + 1); }), "n");
  EXPECT_EQ(error_of([](Options& o) { o.set_truncate_prompt_tokens(0); }),
            "truncate_prompt_tokens");
  EXPECT_EQ(error_of([](Options& o) { o.set_cache_salt(""); }), "cache_salt");
  EXPECT_EQ(error_of([](Options& o) { o.mutable_stop()->add_texts(""); }), "stop");
  EXPECT_EQ(error_of([](Options& o) { o.mutable_bad_words_ids()->add_lists(); }), "bad_words_ids");
  EXPECT_EQ(error_of([](Options& o) { o.mutable_allowed_token_ids(); }), "allowed_token_ids");
  EXPECT_EQ(error_of([](Options& o) { (*o.mutable_logit_bias()->mutable_of())[3] = 101; }),
            "logit_bias");
  EXPECT_EQ(error_of([](Options& o) { o.mutable_sequence_bias()->add_biases(); }), "sequence_bias");
  EXPECT_EQ(error_of([](Options& o) { o.mutable_exponential_decay_length_penalty(); }),
            "exponential_decay_length_penalty");
  EXPECT_EQ(error_of([](Options& o) {
              o.set_early_stopping(static_cast<SamplingParams::EarlyStopping>(7));
            }),
            "early_stopping");
  EXPECT_EQ(error_of([](Options& o) { o.set_forced_bos_token_id(-1); }), "forced_bos_token_id");
  for (const auto& [name, parameter] : parameters())
    for (const json& value : parameter.good)
      EXPECT_NO_THROW(check_options(read_options({{name, value}}))) << name << " " << value;
  // The vocabulary is the engine's to know.
  const ModelConfig config = bart();
  const ParamsResolver resolver(config, kVocab);
  Options other;
  other.set_forced_bos_token_id(int64_t{1} << 40);
  EXPECT_NO_THROW(check_options(other));
  EXPECT_THROW(resolver.default_bos(other), InputError);
  EXPECT_THROW(resolver.resolve(other, kDefaultPrompt), InputError);
}

TEST(Params, EveryFieldOfTheMessageIsReadUnderItsName) {
  std::set<std::string> names;
  for (const auto& [name, parameter] : parameters()) names.insert(name);
  const auto* fields = proto::GenerationOptions::descriptor();
  for (int i = 0; i < fields->field_count(); ++i) {
    const std::string& name = fields->field(i)->name();
    if (name == "off" || name == "without_effect" || name == "processed_logprobs") continue;
    if (name == "lora") continue;        // stands beside the prompt
    if (name == "constraint") continue;  // of several names: guided_…, response_format
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Params, MustBeAnObject) {
  EXPECT_NO_THROW(resolve(nullptr));
  for (const json& params : {json::array(), json(1), json("x"), json(true)})
    EXPECT_EQ(error_of(params).param(), "params");
}

}  // namespace
}  // namespace tandem::params_test
