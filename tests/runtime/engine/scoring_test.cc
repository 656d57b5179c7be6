// Scores of targets: HuggingFace's teacher-forced log-probabilities, what counts as the target, and
// targets that fill the decoder.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::scoring_test {
namespace {

using nlohmann::json;
using Ids = std::vector<int>;
constexpr double kTolerance = 3e-4;

struct Scored {
  Ids tokens;
  std::vector<double> logprobs;
};

Scored scored(const proto::RequestOutput& output) {
  Scored out;
  const auto& fed = output.inputs().prompt_token_ids();
  EXPECT_EQ(output.prompt_logprobs_size(), fed.size() - 1);
  for (int i = output.inputs().target_start(); i < fed.size(); ++i) {
    out.tokens.push_back(fed[i]);
    EXPECT_EQ(output.prompt_logprobs(i - 1).top(0).token_id(), fed[i]);
    out.logprobs.push_back(output.prompt_logprobs(i - 1).top(0).logprob());
  }
  EXPECT_EQ(output.outputs_size(), 1);
  EXPECT_EQ(output.outputs(0).token_ids_size(), 1);
  out.tokens.push_back(output.outputs(0).token_ids(0));
  EXPECT_EQ(output.outputs(0).logprobs(0).top(0).token_id(), out.tokens.back());
  out.logprobs.push_back(output.outputs(0).logprobs(0).top(0).logprob());
  return out;
}

std::map<std::string, proto::RequestOutput> run_all(LLMEngine& engine) {
  std::map<std::string, proto::RequestOutput> out;
  while (engine.has_unfinished_requests())
    for (auto& o : engine.step()) {
      engine.check_integrity();
      if (o.finished()) out[o.request_id()] = o;
    }
  return out;
}

proto::RequestOutput run(LLMEngine& engine, const json& prompt, const json& params = {}) {
  engine.add_request("x", prompt, params.is_null() ? json::object() : params);
  return run_all(engine).at("x");
}

std::string param_of(LLMEngine& engine, const json& prompt, const json& params = json::object()) {
  try {
    engine.add_request("x", prompt, params);
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find(error.param()), std::string::npos);
    return error.param();
  }
  ADD_FAILURE() << prompt << " is accepted";
  return "";
}

json ids(const json& list) { return {{"prompt_token_ids", list}}; }

class ScoringGoldens : public ::testing::TestWithParam<const char*> {};

// All in one batch; behind [start], and behind the decoder prompt where the case has one.
TEST_P(ScoringGoldens, AgreeWithHuggingFace) {
  for (const int budget : {2048, 5}) {
    EngineConfig config = testing::golden_config(GetParam());
    config.mutable_scheduling()->set_max_num_batched_tokens(budget);
    config.mutable_cache()->set_block_size(budget == 5 ? 2 : 16);
    LLMEngine engine(config);
    const json golden = testing::load_golden(GetParam());
    std::map<std::string, std::vector<double>> expected;
    for (const auto& c : golden.at("cases")) {
      if (!c.contains("prompt_logprobs")) continue;
      const auto forced = c.at("teacher_forced_decoder_ids").get<Ids>();
      const auto logprobs = c.at("prompt_logprobs").get<std::vector<double>>();
      const auto prompt = c.at("decoder_prompt_ids").get<Ids>();
      for (const size_t from : {size_t{1}, prompt.size()}) {
        const std::string id = c.at("name").get<std::string>() + "@" + std::to_string(from);
        if (expected.count(id)) continue;
        engine.add_request(id,
                           {{"encoder_prompt", ids(c.at("encoder_ids"))},
                            {"decoder_prompt", ids(Ids(forced.begin(), forced.begin() + from))},
                            {"target", ids(Ids(forced.begin() + from, forced.end()))},
                            {"append_eos", false}},
                           json::object());
        expected[id] = {logprobs.begin() + static_cast<long>(from) - 1, logprobs.end()};
      }
    }
    ASSERT_GE(expected.size(), 2u);
    const auto results = run_all(engine);
    for (const auto& [id, want] : expected) {
      const Scored got = scored(results.at(id));
      ASSERT_EQ(got.logprobs.size(), want.size()) << id;
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(got.logprobs[i], want[i], kTolerance) << id << ", token " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Bart, ScoringGoldens,
                         ::testing::Values("bart-tiny", "bart-base-shape", "bart-odd-heads",
                                           "bart-model-only", "bart-pickle", "bart-sharded"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// What is generated gets the log-probabilities again that it was generated with; up to the last
// position, and not beyond it.
TEST(Scoring, ATargetMayFillTheDecoder) {
  LLMEngine engine(testing::golden_config("bart-odd-heads"));
  constexpr int kPositions = 96;
  const json source = ids({0, 17, 33, 21, 2});
  const json start = ids({2, 40});
  const auto generated = run(engine, {{"encoder_prompt", source}, {"decoder_prompt", start}},
                             {{"max_tokens", nullptr},
                              {"ignore_eos", true},
                              {"logprobs", 1},
                              {"num_beams", 1},
                              {"forced_eos_token_id", nullptr}});
  const auto& tokens = generated.outputs(0).token_ids();
  ASSERT_EQ(tokens.size(), kPositions + 1 - 2);
  Ids target(tokens.begin(), tokens.end());
  const json prompt = {{"encoder_prompt", source},
                       {"decoder_prompt", start},
                       {"target", ids(target)},
                       {"append_eos", false}};
  const auto output = run(engine, prompt, {{"logprobs", 1}});
  EXPECT_EQ(output.inputs().target_start(), 2);
  const Scored got = scored(output);
  EXPECT_EQ(got.tokens, target);
  for (int i = 0; i < tokens.size(); ++i) {
    const auto& want = generated.outputs(0).logprobs(i);
    EXPECT_NEAR(got.logprobs[static_cast<size_t>(i)], want.top(0).logprob(), kTolerance);
    const auto& both =
        i + 1 < tokens.size() ? output.prompt_logprobs(i + 1) : output.outputs(0).logprobs(0);
    ASSERT_EQ(both.top_size(), 2);
    EXPECT_EQ(both.top(1).token_id(), want.top(1).token_id());
  }
  target.push_back(5);
  json longer = prompt;
  longer["target"] = ids(target);
  EXPECT_EQ(param_of(engine, longer), "target.prompt_token_ids");
  EXPECT_FALSE(engine.has_unfinished_requests());
}

TEST(Scoring, EndTokensOfTextsAndIds) {
  LLMEngine engine(testing::golden_config("bart-tiny"));
  const auto tokens = [&](const json& target, const json& append) {
    json prompt = {{"encoder_prompt", "a small lighthouse"}, {"target", target}};
    if (!append.is_null()) prompt["append_eos"] = append;
    const auto output = run(engine, prompt);
    EXPECT_EQ(output.inputs().prompt_token_ids(0), 2);
    EXPECT_EQ(output.inputs().target_start(), 1);
    EXPECT_EQ(output.inputs().has_target(), target.is_string());
    return scored(output).tokens;
  };
  const auto text = engine.tokenizer().encode("stood there");  // <s> … </s>
  const Ids whole(text.begin(), text.end());
  ASSERT_EQ(whole.back(), 2);
  EXPECT_EQ(tokens("stood there", nullptr), whole);
  EXPECT_EQ(tokens("stood there", true), whole);
  EXPECT_EQ(tokens("stood there", false), Ids(whole.begin(), whole.end() - 1));
  EXPECT_EQ(tokens(ids({7, 8}), nullptr), (Ids{7, 8, 2}));
  EXPECT_EQ(tokens(ids({7, 8, 2}), nullptr), (Ids{7, 8, 2}));
  EXPECT_EQ(tokens(ids({7, 8, 2}), false), (Ids{7, 8, 2}));  // as they are
  EXPECT_EQ(tokens(ids({7}), false), Ids{7});
  EXPECT_EQ(tokens(ids({2}), false), Ids{2});
}

TEST(Scoring, TheModelsDefaultsDoNotMatter) {
  EngineConfig config = testing::golden_config("bart-tiny");
  LLMEngine engine(config);
  const json prompt = {{"encoder_prompt", "a small lighthouse"}, {"target", ids({7, 7, 7, 7})}};
  const Scored alone = scored(run(engine, prompt));
  EXPECT_EQ(alone.tokens, (Ids{7, 7, 7, 7, 2}));
  for (const double logprob : alone.logprobs) EXPECT_TRUE(std::isfinite(logprob) && logprob < 0);
}

TEST(Scoring, BadRequests) {
  LLMEngine engine(testing::golden_config("bart-tiny"));
  const auto with = [](const json& more) {
    json prompt = {{"encoder_prompt", "x"}, {"target", "y"}};
    prompt.update(more);
    return prompt;
  };
  for (const json& target : {json(1), json(true), json::array(), ids(json::array()),
                             ids({1, 1000000}), ids({-1}), json::object()})
    EXPECT_EQ(param_of(engine, with({{"target", target}})).substr(0, 6), "target") << target;
  EXPECT_EQ(param_of(engine, with({{"append_eos", 1}})), "append_eos");
  EXPECT_EQ(param_of(engine, {{"encoder_prompt", "x"}, {"append_eos", true}}), "append_eos");
  EXPECT_EQ(param_of(engine, {{"target", "x"}}), "prompt.encoder_prompt");
  EXPECT_EQ(param_of(engine, with({{"traget", "y"}})), "prompt");
  EXPECT_EQ(param_of(engine, with(json::object()), {{"temperature", 0.5}}), "temperature");
  EXPECT_EQ(param_of(engine, with(json::object()), {{"num_beams", 4}}), "num_beams");
  EXPECT_EQ(param_of(engine, with(json::object()), {{"logprobs", 101}}), "logprobs");
  EXPECT_EQ(param_of(engine, with(json::object()), {{"eos_token_id", nullptr}}), "append_eos");
}

}  // namespace
}  // namespace tandem::scoring_test
