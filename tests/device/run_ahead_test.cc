// A device that works behind the host: steps launched before the tokens of the ones before are
// known, and sampling on the device, give the CPU's tokens. So do steps that verify drafts.
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::run_ahead_test {
namespace {

using nlohmann::json;
using Results = std::map<std::string, proto::RequestOutput>;

json prompt_of(int i) {
  std::vector<int> encoder{0};
  for (int k = 0; k < 5 + 4 * (i % 6); ++k) encoder.push_back(10 + (41 * i + 13 * k) % 500);
  encoder.push_back(2);
  return {{"encoder_prompt", {{"prompt_token_ids", encoder}}}};
}

// What the device does by itself, and what makes it wait for the host, in one batch.
json params_of(int i) {
  json params = {{"seed", 77 + i},
                 {"max_tokens", 6 + 3 * (i % 7)},
                 {"num_beams", 1},
                 {"ignore_eos", i % 3 == 0}};
  const bool samples = i % 2 == 1;
  if (samples) params.update({{"temperature", 0.8 + 0.1 * (i % 9)}, {"do_sample", true}});
  switch (i % 10) {
    case 1: params["top_k"] = 7; break;
    case 2: params["repetition_penalty"] = 1.4; break;
    case 3: params.update({{"top_p", 0.8}, {"n", 2}}); break;
    case 4: params["no_repeat_ngram_size"] = 2; break;
    case 5: params.update({{"top_k", 50}, {"top_p", 0.6}, {"min_p", 0.02}}); break;
    case 6: params["logprobs"] = 2; break;
    case 7: params.update({{"typical_p", 0.7}}); break;  // the host's
    case 8: params.update({{"num_beams", 3}, {"n", 2}}); break;
    case 9: params.update({{"min_tokens", 5}, {"top_k", 200}}); break;
    default: params["min_tokens"] = 4; break;
  }
  return params;
}

// Searches of all sorts, with processors that look at what the beams say, among others.
json beam_params_of(int i) {
  json params = {{"num_beams", 2 + i % 4}, {"max_tokens", 4 + 3 * (i % 6)}};
  params["n"] = 1 + i % 2;
  switch (i % 9) {
    case 0: params.update({{"no_repeat_ngram_size", 3}, {"min_tokens", 3}}); break;
    case 1:
      params.update({{"early_stopping", true}, {"length_penalty", 2.0}, {"logprobs", 0}});
      break;
    case 2: params.update({{"no_repeat_ngram_size", 1}, {"early_stopping", "never"}}); break;
    case 3: params.update({{"forced_bos_token_id", 7}, {"forced_eos_token_id", 2}}); break;
    case 4: params.update({{"encoder_no_repeat_ngram_size", 3}}); break;  // the host's
    case 5: params.update({{"do_sample", true}, {"seed", 3}}); break;     // the host's
    case 6: params = {{"num_beams", 1}, {"no_repeat_ngram_size", 2}, {"max_tokens", 18}}; break;
    case 7: params.update({{"length_penalty", -0.5}, {"suppress_tokens", {5, 9}}}); break;
    default: params.update({{"ignore_eos", true}, {"no_repeat_ngram_size", 2}}); break;
  }
  return params;
}

// Lists of log-probabilities of all lengths (one is the host's), of rows with processors and
// without.
json list_params_of(int i) {
  json params = {{"seed", 5 + i}, {"max_tokens", 5 + 3 * (i % 5)}, {"num_beams", 1}};
  params["logprobs"] = std::vector<int>{0, 5, 1, 64, 3, 100, 17}[static_cast<size_t>(i % 7)];
  if (i % 2 == 1) params.update({{"temperature", 1.5}, {"do_sample", true}});
  switch (i % 9) {
    case 0: params.update({{"forced_bos_token_id", 7}, {"forced_eos_token_id", 2}}); break;
    case 1: params["top_k"] = 30; break;
    case 2: params.update({{"suppress_tokens", {5, 9, 300}}, {"min_tokens", 4}}); break;
    case 3: params.update({{"n", 2}, {"top_p", 0.9}}); break;
    case 4: params["no_repeat_ngram_size"] = 1; break;
    case 5: params["logit_bias"] = {{"11", 9.5}, {"12", -4}, {"200", 8}}; break;
    case 6: params.erase("logprobs"); break;
    case 7: params["typical_p"] = 0.7; break;  // the host's
    default: params.update({{"ignore_eos", true}}); break;
  }
  return params;
}

// Penalties, over beams and without, among processors before and behind them.
json penalty_params_of(int i) {
  json params = {{"seed", 9 + i}, {"max_tokens", 8 + 4 * (i % 4)}, {"num_beams", 1}};
  if (i % 3 == 1) params.update({{"temperature", 1.3}, {"do_sample", true}});
  if (i % 3 == 2) params.update({{"num_beams", 2 + i % 3}, {"early_stopping", i % 2 == 0}});
  if (i % 4 == 0) params["logprobs"] = i % 3 == 2 ? 0 : 3;
  switch (i % 7) {
    case 0: params.update({{"repetition_penalty", 1.3}, {"no_repeat_ngram_size", 2}}); break;
    case 1: params.update({{"presence_penalty", 0.7}, {"frequency_penalty", -0.4}}); break;
    case 2: params.update({{"repetition_penalty", 0.8}, {"suppress_tokens", {5, 9}}}); break;
    case 3: params.update({{"frequency_penalty", 1.5}, {"min_tokens", 6}}); break;
    case 4:
      params.update({{"repetition_penalty", 2.5},
                     {"logit_bias", {{"11", 3.5}, {"12", -4}, {"2", 1}}},
                     {"exponential_decay_length_penalty", {2, 1.2}}});
      break;
    case 5:
      params.update({{"presence_penalty", -1.0},
                     {"encoder_repetition_penalty", 1.4},
                     {"forced_eos_token_id", 2}});
      break;
    default: params.update({{"repetition_penalty", 1.7}, {"encoder_no_repeat_ngram_size", 3}});
  }
  return params;
}

// Tokens that are favoured, bad and allowed. Words of several tokens are the host's.
json rule_params_of(int i) {
  json params = {{"seed", 2 + i}, {"max_tokens", 5 + 3 * (i % 4)}, {"num_beams", 1}};
  if (i % 3 == 1) params.update({{"temperature", 1.3}, {"do_sample", true}});
  if (i % 3 == 2) params.update({{"num_beams", 2 + i % 3}});
  switch (i / 3 % 4) {
    case 0: params["logit_bias"] = {{"11", 9.5}, {"12", -100}}; break;
    case 1: params["bad_words_ids"] = {{11}, {12}, {300}}; break;
    case 2: params["bad_words_ids"] = {{11, 12}, {300}, {41, 42, 43}}; break;
    default: params["allowed_token_ids"] = {2, 5, 11, 12, 40, 41, 42, 43, 77, 300}; break;
  }
  return params;
}

// Texts of a form, decoded in every way; one that bad words make impossible.
json constraint_params_of(int i) {
  json params = {{"seed", 9 + i}, {"max_tokens", 12 + 5 * (i % 4)}, {"num_beams", 1}};
  if (i % 3 == 1) params.update({{"temperature", 1.4}, {"do_sample", true}, {"n", 2}});
  if (i % 3 == 2) params.update({{"num_beams", 2 + i % 3}});
  if (i % 4 == 1) params["logprobs"] = i % 3 == 2 ? 0 : 2;
  switch (i % 7) {
    case 0: params["guided_choice"] = {"yes", "no", "not at all"}; break;
    case 1: params["guided_regex"] = "[a-c]{2,9}(, [a-c]{2,9})*"; break;
    case 2: params.update({{"guided_regex", "[0-9]+"}, {"min_tokens", 6}}); break;
    case 3: params.update({{"guided_regex", "(ab|cd)+"}, {"repetition_penalty", 1.5}}); break;
    case 4:
      params.update({{"guided_choice", {"left", "right"}}, {"forced_bos_token_id", 0}});
      break;
    case 5: params.update({{"guided_regex", "x*"}, {"no_repeat_ngram_size", 2}}); break;
    default: params["min_tokens"] = 4; break;  // no constraint, in the same batch
  }
  return params;
}

// Of few words, which repeat themselves: greedy, drawn, and with what keeps tokens on the device or
// is the host's.
json repeating_params_of(int i) {
  json params = {{"seed", 4 + i},
                 {"max_tokens", 20 + 5 * (i % 4)},
                 {"num_beams", 1},
                 {"ignore_eos", true},
                 {"allowed_token_ids", {11, 12, 13}}};
  if (i % 3 == 1) params.update({{"temperature", 0.3}, {"do_sample", true}});
  switch (i % 5) {
    case 0: params["repetition_penalty"] = 1.01; break;
    case 1: params["typical_p"] = 0.9; break;  // the host's
    case 2: params["logprobs"] = 2; break;
    case 3: params["bad_words_ids"] = {{11, 12, 13}}; break;  // the host's
    default: params = {{"num_beams", 2}, {"max_tokens", 9}};
  }
  return params;
}

using Params = json (*)(int);

struct Run {
  Results results;
  int64_t drafts = 0;  // tokens
};

Run run(const EngineConfig& config, int requests, Params params_of) {
  LLMEngine engine(config);
  Results out;
  int added = 0;
  while (added < requests || engine.has_unfinished_requests()) {
    for (int n = 0; n < 3 && added < requests; ++n, ++added)  // they come while others run
      engine.add_request(std::to_string(added), prompt_of(added), params_of(added));
    for (auto& o : engine.step())
      if (o.finished()) out[o.request_id()] = o;
    engine.check_integrity();
  }
  return {std::move(out), engine.scheduler().speculation_stats().draft_tokens};
}

// Entries that are nearly equal may come in another order, and the last may be another one.
void expect_same_list(const proto::TokenLogprobs& got, const proto::TokenLogprobs& want) {
  ASSERT_EQ(got.top_size(), want.top_size());
  std::map<int32_t, float> wanted;
  for (const auto& entry : want.top()) wanted[entry.token_id()] = entry.logprob();
  for (int i = 0; i < want.top_size(); ++i) {
    const auto &a = got.top(i), &b = want.top(i);
    EXPECT_NEAR(a.logprob(), b.logprob(), 1e-4) << i;
    if (i == 0) {
      EXPECT_EQ(a.token_id(), b.token_id());
      EXPECT_NEAR(a.rank(), b.rank(), 1);
    } else {
      EXPECT_EQ(a.rank(), i);
      EXPECT_EQ(b.rank(), i);
      const auto same = wanted.find(a.token_id());
      const auto& last = want.top(want.top_size() - 1);
      EXPECT_NEAR(a.logprob(), same == wanted.end() ? last.logprob() : same->second, 1e-4) << i;
    }
  }
}

void expect_same(const Results& got, const Results& want, Params params_of) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [id, output] : want) {
    SCOPED_TRACE("request " + id + " " + params_of(std::stoi(id)).dump());
    const auto& other = got.at(id);
    ASSERT_EQ(other.outputs_size(), output.outputs_size());
    for (int i = 0; i < output.outputs_size(); ++i) {
      const auto &a = other.outputs(i).token_ids(), &b = output.outputs(i).token_ids();
      EXPECT_EQ(std::vector<int>(a.begin(), a.end()), std::vector<int>(b.begin(), b.end())) << i;
      EXPECT_NEAR(other.outputs(i).cumulative_logprob(), output.outputs(i).cumulative_logprob(),
                  1e-3);
      EXPECT_EQ(other.outputs(i).finish_reason(), output.outputs(i).finish_reason());
      const auto &lists = other.outputs(i).logprobs(), &wanted = output.outputs(i).logprobs();
      ASSERT_EQ(lists.size(), wanted.size());
      EXPECT_EQ(wanted.size(), params_of(std::stoi(id)).contains("logprobs") ? b.size() : 0);
      for (int k = 0; k < wanted.size(); ++k) {
        SCOPED_TRACE("token " + std::to_string(k));
        expect_same_list(lists[k], wanted[k]);
      }
    }
  }
}

struct Setting {
  const char* name;
  int blocks;  // of the cache
  bool eager;
  PreemptionMode preemption = PreemptionMode::kAuto;
  enum class Drafts : uint8_t { kNone, kLookedUp, kOfModel } drafts = Drafts::kNone;
};

using enum Setting::Drafts;
constexpr PreemptionMode kAuto = PreemptionMode::kAuto;
constexpr Setting kDraftModel{"draft_model", 2000, false, kAuto, kOfModel},
    kFewBlocks{"draft_model_of_few_blocks", 120, true, kAuto, kOfModel};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

void expect_the_cpus(const Setting& setting, int requests, Params params_of) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_cache()->set_block_size(4);
  config.mutable_cache()->set_num_gpu_blocks_override(setting.blocks);
  config.mutable_loading()->set_enforce_eager(setting.eager);
  config.mutable_scheduling()->set_preemption_mode(testing::preemption_name(setting.preemption));
  config.mutable_loading()->set_device("cpu");
  const Results want = run(config, requests, params_of).results;
  config.mutable_loading()->set_device("cuda");
  proto::DraftingConfig& drafting = *config.mutable_drafting();
  if (setting.drafts != kNone) drafting.set_num_speculative_tokens(4);
  if (setting.drafts == kOfModel) {
    drafting.set_num_speculative_tokens(20);  // more steps of the draft model than marks are kept
    drafting.set_draft_model(config.loading().model());
    drafting.set_draft_cost(0.02);
  }
  const Run got = run(config, requests, params_of);
  expect_same(got.results, want, params_of);
  if (setting.drafts == kNone)
    EXPECT_EQ(got.drafts, 0);
  else
    EXPECT_GT(got.drafts, 0);
}

class RunAhead : public ::testing::TestWithParam<Setting> {};

TEST_P(RunAhead, IsTheCpu) { expect_the_cpus(GetParam(), 20, params_of); }

INSTANTIATE_TEST_SUITE_P(Settings, RunAhead,
                         ::testing::Values(Setting{"recorded", 2000, false},
                                           Setting{"preempted", 100, false},
                                           Setting{"eager", 100, true}, kDraftModel, kFewBlocks),
                         [](const auto& info) { return info.param.name; });

class RepeatingTexts : public ::testing::TestWithParam<Setting> {};

TEST_P(RepeatingTexts, AreTheCpus) { expect_the_cpus(GetParam(), 25, repeating_params_of); }

INSTANTIATE_TEST_SUITE_P(Settings, RepeatingTexts,
                         ::testing::Values(Setting{"looked_up", 2000, false, kAuto, kLookedUp},
                                           Setting{"swapped", 120, true, PreemptionMode::kSwap,
                                                   kLookedUp}),
                         [](const auto& info) { return info.param.name; });

class ListsAhead : public ::testing::TestWithParam<Setting> {};

TEST_P(ListsAhead, AreTheCpus) { expect_the_cpus(GetParam(), 18, list_params_of); }

INSTANTIATE_TEST_SUITE_P(Settings, ListsAhead,
                         ::testing::Values(Setting{"recorded", 2000, false},
                                           Setting{"preempted", 100, true}),
                         [](const auto& info) { return info.param.name; });

class BeamsAhead : public ::testing::TestWithParam<Setting> {};

TEST_P(BeamsAhead, AreTheCpus) { expect_the_cpus(GetParam(), 18, beam_params_of); }

INSTANTIATE_TEST_SUITE_P(Settings, BeamsAhead,
                         ::testing::Values(Setting{"recorded", 2000, false},
                                           Setting{"swapped", 90, false, PreemptionMode::kSwap},
                                           Setting{"recomputed", 90, true,
                                                   PreemptionMode::kRecompute}),
                         [](const auto& info) { return info.param.name; });

class RulesAhead : public ::testing::TestWithParam<Setting> {};

TEST_P(RulesAhead, AreTheCpus) { expect_the_cpus(GetParam(), 24, rule_params_of); }

INSTANTIATE_TEST_SUITE_P(Settings, RulesAhead,
                         ::testing::Values(Setting{"recorded", 2000, false},
                                           Setting{"preempted", 100, true}),
                         [](const auto& info) { return info.param.name; });

class ConstraintsOfADevice : public ::testing::TestWithParam<Setting> {};

TEST_P(ConstraintsOfADevice, AreTheCpus) { expect_the_cpus(GetParam(), 28, constraint_params_of); }

INSTANTIATE_TEST_SUITE_P(Settings, ConstraintsOfADevice,
                         ::testing::Values(Setting{"recorded", 2000, false},
                                           Setting{"preempted", 100, true}),
                         [](const auto& info) { return info.param.name; });

class PenaltiesAhead : public ::testing::TestWithParam<Setting> {};

TEST_P(PenaltiesAhead, AreTheCpus) { expect_the_cpus(GetParam(), 21, penalty_params_of); }

INSTANTIATE_TEST_SUITE_P(Settings, PenaltiesAhead,
                         ::testing::Values(Setting{"recorded", 2000, false},
                                           Setting{"swapped", 90, false, PreemptionMode::kSwap},
                                           Setting{"recomputed", 90, true,
                                                   PreemptionMode::kRecompute}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tandem::run_ahead_test
