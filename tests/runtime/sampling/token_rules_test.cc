// allowed_token_ids, bad words and biases in the engine, against choices made by hand from the
// lists of the most likely tokens; and the reason that a sequence has ended for.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::token_rules_test {
namespace {

using nlohmann::json;
using Ids = std::vector<int>;
using Outputs = std::map<std::string, proto::RequestOutput>;
constexpr int kEos = 2;

json encoder_of(int i) {
  Ids encoder{0};
  for (int k = 0; k < 5 + 3 * (i % 5); ++k) encoder.push_back(10 + (41 * i + 13 * k) % 480);
  encoder.push_back(kEos);
  return {{"prompt_token_ids", encoder}};
}

Outputs run_all(LLMEngine& engine) {
  Outputs out;
  while (engine.has_unfinished_requests())
    for (const auto& o : engine.step())
      if (o.finished()) out[o.request_id()] = o;
  engine.check_integrity();
  return out;
}

proto::RequestOutput run(LLMEngine& engine, const json& prompt, const json& params) {
  engine.add_request("r", prompt, params);
  return run_all(engine).at("r");
}

Ids tokens_of(const proto::CompletionOutput& output) {
  return {output.token_ids().begin(), output.token_ids().end()};
}

Ids allowed_ids() {
  Ids ids{kEos};
  for (int id = 3; id < 500; id += 2) ids.push_back(id);
  return ids;
}

bool ends_with(const Ids& ids, const Ids& tail) {
  return tail.size() <= ids.size() &&
         std::equal(tail.begin(), tail.end(), ids.end() - static_cast<long>(tail.size()));
}

// Greedy, one token after the other: what `bias` makes of the hundred most likely.
template <class Bias>
Ids naive_greedy(LLMEngine& engine, const json& encoder, int length, const Bias& bias) {
  Ids decoder{2, 0}, generated;
  for (int i = 0; i < length; ++i) {
    const auto output = run(
        engine, {{"encoder_prompt", encoder}, {"decoder_prompt", {{"prompt_token_ids", decoder}}}},
        {{"max_tokens", 1}, {"logprobs", 100}, {"num_beams", 1}, {"forced_eos_token_id", nullptr}});
    float best = -std::numeric_limits<float>::infinity();
    int token = -1;
    for (const auto& t : output.outputs(0).logprobs(0).top()) {
      const float score = t.logprob() + bias(decoder, t.token_id());
      if (score > best) {
        best = score;
        token = t.token_id();
      }
    }
    EXPECT_GE(token, 0) << "nothing of the list is left";
    decoder.push_back(token);
    generated.push_back(token);
    if (token == kEos) break;
  }
  return generated;
}

constexpr float kNever = -std::numeric_limits<float>::infinity();

TEST(TokenRules, GreedyChoosesTheBestThatIsLeft) {
  LLMEngine engine(testing::golden_config("bart-tiny"));
  const Ids allowed = allowed_ids();
  for (int i = 0; i < 4; ++i) {
    const json encoder = encoder_of(i);
    json params = {{"max_tokens", 8}, {"num_beams", 1}, {"forced_eos_token_id", nullptr}};
    const auto greedy = [&](const json& more) {
      json all = params;
      all.update(more);
      const json prompt = {{"encoder_prompt", encoder},
                           {"decoder_prompt", {{"prompt_token_ids", {2, 0}}}}};
      return tokens_of(run(engine, prompt, all).outputs(0));
    };
    const Ids plain = greedy(json::object());
    EXPECT_EQ(naive_greedy(engine, encoder, 8, [](const Ids&, int) { return 0.0f; }), plain);
    // Lists that say nothing.
    for (const json& none :
         {json({{"logit_bias", json::object()}}), json({{"bad_words_ids", json::array()}}),
          json({{"logit_bias", nullptr}, {"bad_words", nullptr}, {"allowed_token_ids", nullptr}}),
          json({{"logit_bias", {{"5", 0}}}}), json({{"bad_words", json::array()}})})
      EXPECT_EQ(greedy(none), plain) << none;
    EXPECT_EQ(greedy({{"allowed_token_ids", allowed}}),
              naive_greedy(engine, encoder, 8, [&](const Ids&, int id) {
                return std::count(allowed.begin(), allowed.end(), id) > 0 ? 0.0f : kNever;
              }));
    // What it would have said: one token, two in a row.
    const std::vector<Ids> words{{plain[0]},
                                 {plain[plain.size() / 2 - 1], plain[plain.size() / 2]}};
    const Ids without = greedy({{"bad_words_ids", words}});
    EXPECT_NE(without, plain);
    EXPECT_EQ(without, naive_greedy(engine, encoder, 8, [&](Ids decoder, int id) {
                decoder.push_back(id);
                return ends_with(decoder, words[0]) || ends_with(decoder, words[1]) ? kNever : 0.0f;
              }));
    const std::map<int, float> bias{{plain[0], -3.5f}, {plain.back(), 1.5f}, {77, 0.75f}};
    json by_id = json::object();
    for (const auto& [id, value] : bias) by_id[std::to_string(id)] = value;
    EXPECT_EQ(greedy({{"logit_bias", by_id}}),
              naive_greedy(engine, encoder, 8, [&](const Ids&, int id) {
                const auto it = bias.find(id);
                return it == bias.end() ? 0.0f : it->second;
              }));
  }
}

json rules_of(int i) {
  json params = {{"max_tokens", 6 + i % 7}, {"seed", 3 + i}, {"num_beams", 1}};
  switch (i % 4) {
    case 0: break;
    case 1: params.update({{"temperature", 1.5}, {"n", 3}}); break;
    case 2: params.update({{"num_beams", 4}, {"n", 2}}); break;
    default: params.update({{"do_sample", true}, {"best_of", 3}, {"top_k", 30}}); break;
  }
  switch (i / 4 % 3) {
    case 0: params["allowed_token_ids"] = allowed_ids(); break;
    case 1: params["bad_words_ids"] = {{41}, {50, 51}, {77}}; break;
    default: params["logit_bias"] = {{"41", 100}, {"43", -100}, {"60", 3}}; break;
  }
  return params;
}

// Alone, all at once, and where the cache is so small that requests are preempted.
TEST(TokenRules, DoNotDependOnTheBatch) {
  Outputs alone;
  for (int setting = 0; setting < 4; ++setting) {
    EngineConfig config = testing::golden_config("bart-tiny");
    config.mutable_cache()->set_block_size(2);
    if (setting >= 2) config.mutable_cache()->set_num_gpu_blocks_override(60);
    config.mutable_scheduling()->set_preemption_mode(testing::preemption_name(
        setting == 2 ? PreemptionMode::kRecompute : PreemptionMode::kSwap));
    LLMEngine engine(config);
    Outputs out;
    for (int i = 0; i < 24; ++i) {
      engine.add_request(std::to_string(i), {{"encoder_prompt", encoder_of(i)}}, rules_of(i));
      if (setting == 0) out.merge(run_all(engine));
    }
    if (setting > 0) out = run_all(engine);
    ASSERT_EQ(out.size(), 24u);
    if (setting == 0) alone = out;
    if (setting >= 2) {
      EXPECT_GT(engine.scheduler().num_preemptions(), 0);
    }
    for (const auto& [id, output] : out) {
      SCOPED_TRACE(id + ", setting " + std::to_string(setting));
      const json params = rules_of(std::stoi(id));
      ASSERT_EQ(output.outputs_size(), alone.at(id).outputs_size());
      for (int k = 0; k < output.outputs_size(); ++k) {
        const Ids ids = tokens_of(output.outputs(k));
        EXPECT_EQ(ids, tokens_of(alone.at(id).outputs(k)));
        if (!params.contains("allowed_token_ids")) continue;
        const auto allowed = params["allowed_token_ids"].get<std::set<int>>();
        for (const int token : ids) EXPECT_TRUE(allowed.count(token)) << token;
      }
    }
  }
}

// One of one token, with more beams than it leaves continuations.
TEST(TokenRules, OneTokenIsEnough) {
  LLMEngine engine(testing::golden_config("bart-tiny"));
  for (const int beams : {1, 4}) {
    const auto output = run(engine, {{"encoder_prompt", encoder_of(1)}},
                            {{"allowed_token_ids", {9}},
                             {"num_beams", beams},
                             {"max_tokens", 4},
                             {"forced_eos_token_id", nullptr}});
    EXPECT_EQ(tokens_of(output.outputs(0)), (Ids{9, 9, 9, 9})) << beams;
    EXPECT_EQ(output.outputs(0).finish_reason(), "length");
  }
}

TEST(FinishReason, IsLengthWhereTheLimitForcedTheEnd) {
  LLMEngine engine(testing::golden_config("bart-tiny"));
  const json ways[] = {{{"num_beams", 1}},
                       {{"num_beams", 1}, {"do_sample", true}, {"n", 2}, {"seed", 1}},
                       {{"num_beams", 1}, {"do_sample", true}, {"best_of", 3}, {"seed", 2}},
                       {{"num_beams", 3}, {"n", 3}}};
  for (const json& way : ways) {
    SCOPED_TRACE(way.dump());
    const auto ends = [&](const json& more, const std::string& reason, int length) {
      json params = way;
      params.update({{"max_tokens", 5}, {"eos_token_id", kEos}});
      params.update(more);
      const auto output = run(engine, {{"encoder_prompt", encoder_of(2)}}, params);
      for (const auto& o : output.outputs()) {
        EXPECT_EQ(o.token_ids_size(), length) << more;
        EXPECT_EQ(o.token_ids(o.token_ids_size() - 1), kEos) << more;
        EXPECT_EQ(o.finish_reason(), reason) << more;
        EXPECT_EQ(o.stop_reason(), "") << more;
      }
    };
    ends({{"forced_eos_token_id", kEos}, {"min_tokens", 4}}, "length", 5);
    // The end is its own choice; the same where the limit would have forced it.
    const json likely = {{"2", 100}};
    ends({{"forced_eos_token_id", nullptr}, {"min_tokens", 4}, {"logit_bias", likely}}, "stop", 5);
    ends({{"forced_eos_token_id", kEos}, {"min_tokens", 4}, {"logit_bias", likely}}, "length", 5);
    if (way["num_beams"] == 1)
      ends({{"forced_eos_token_id", kEos}, {"logit_bias", likely}}, "stop", 1);
  }
}

}  // namespace
}  // namespace tandem::token_rules_test
