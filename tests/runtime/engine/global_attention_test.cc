// global_attention through the whole engine: what a request says, what it does not say, caches,
// small pools, and workers that come after others died.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "runtime/engine/make_sequence_group.h"
#include "runtime/engine/states/request_state.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "tests/support/goldens/golden_config.h"
#include "tests/support/goldens/random_led.h"

namespace tandem::global_attention_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::RandomLed;

// What is compared of an output: all its numbers.
struct Answer {
  std::vector<float> logprobs, embedding;
  bool operator==(const Answer&) const = default;
};

struct Case {
  json ids;
  json global;  // null: not said
  bool pooled = false;
};

// The same texts with other global tokens.
std::vector<Case> cases() {
  std::mt19937 random(7);
  const json globals[] = {nullptr, json::array(), {0}, {5}, {5, 0}, {0, 5, 11}};
  std::vector<Case> out;
  for (const int length : {12, 40}) {
    json ids = json::array();
    for (int i = 0; i < length; ++i) ids.push_back(random() % 2000);
    for (const json& global : globals)
      for (const bool pooled : {false, true}) out.push_back({ids, global, pooled});
  }
  return out;
}

void add(LLMEngine& engine, const std::string& id, const Case& c) {
  json params = {{"logprobs", 0}, {"max_new_tokens", 6}, {"num_beams", 1}}, prompt = c.ids;
  if (c.pooled) {
    params = json::object();
    prompt = {{"encoder_prompt", c.ids}, {"pooling", "mean"}};
  }
  if (!c.global.is_null()) params["global_attention"] = c.global;
  engine.add_request(id, read_prompt(prompt), read_options(params));
}

std::map<std::string, Answer> run(LLMEngine& engine) {
  std::map<std::string, Answer> out;
  for (int i = 0; engine.has_unfinished_requests() && i < 100000; ++i) {
    for (const auto& output : engine.step()) {
      Answer& answer = out[output.request_id()];
      answer.embedding = {output.embedding().values().begin(), output.embedding().values().end()};
      answer.logprobs.clear();
      for (const auto& sequence : output.outputs())
        for (const auto& token : sequence.logprobs())
          answer.logprobs.push_back(token.top(0).logprob());
    }
    engine.check_integrity();
  }
  EXPECT_FALSE(engine.has_unfinished_requests());
  return out;
}

class GlobalAttentionOfRequests : public ::testing::Test {
 protected:
  EngineConfig config() {
    EngineConfig config = testing::golden_config("bart-tiny");
    config.mutable_loading()->set_model(files_.path().string());
    return config;
  }
  std::map<std::string, Answer> together(LLMEngine& engine) {
    const auto all = cases();
    for (size_t i = 0; i < all.size(); ++i) add(engine, std::to_string(i), all[i]);
    return run(engine);
  }
  // Each in an engine of its own.
  std::map<std::string, Answer> alone() {
    std::map<std::string, Answer> out;
    const auto all = cases();
    for (size_t i = 0; i < all.size(); ++i) {
      LLMEngine engine(config());
      add(engine, std::to_string(i), all[i]);
      out.merge(run(engine));
    }
    return out;
  }

  RandomLed files_;
};

TEST_F(GlobalAttentionOfRequests, EachIsItsOwnInCompanyAndInCaches) {
  const auto want = alone();
  // Nothing said is the first token; any other set says something else.
  for (const int text : {0, 12})
    for (const int kind : {0, 1}) {
      const auto at = [&](int i) { return want.at(std::to_string(text + 2 * i + kind)); };
      EXPECT_EQ(at(0), at(2));
      for (const int i : {1, 3, 4, 5})
        for (int j = 0; j < i; ++j) EXPECT_NE(at(i), at(j)) << text << " " << i << " " << j;
    }
  LLMEngine engine(config());
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(together(engine), want);
    // Those that are not pooled, which leave nothing: of six, the first and the third are equal.
    EXPECT_EQ(engine.scheduler().block_manager().cache_stats().encoder_hits, round == 0 ? 2 : 14);
  }
}

TEST_F(GlobalAttentionOfRequests, AlsoWithSmallPoolsAndBudgets) {
  const auto want = alone();
  for (const PreemptionMode mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap}) {
    EngineConfig small = config();
    small.mutable_cache()->set_block_size(4);
    small.mutable_cache()->set_num_gpu_blocks_override(16);
    small.mutable_scheduling()->set_max_num_batched_tokens(20);
    small.mutable_scheduling()->set_preemption_mode(testing::preemption_name(mode));
    LLMEngine engine(small);
    EXPECT_EQ(together(engine), want);
  }
}

std::vector<int32_t> kept_of(RequestProcessor& processor, const json& prompt, const json& params) {
  const PreparedRequest request = processor.prepare(read_prompt(prompt), read_options(params));
  const auto& global = request.inputs.global_attention();
  return {global.begin(), global.end()};
}

TEST_F(GlobalAttentionOfRequests, WhereItIsSaid) {
  RequestProcessor processor(files_.path(), 1);
  const json none = json::object(), ids = {5, 6, 7, 8};
  const auto with = [&](const json& global) {
    return json{{"prompt_token_ids", ids}, {"global_attention", global}};
  };
  EXPECT_THAT(kept_of(processor, ids, none), ElementsAre(0));
  EXPECT_THAT(kept_of(processor, ids, {{"global_attention", {3, 1, 3}}}), ElementsAre(1, 3));
  EXPECT_THAT(kept_of(processor, ids, {{"global_attention", json::array()}}), IsEmpty());
  EXPECT_THAT(kept_of(processor, ids, {{"global_attention", nullptr}}), IsEmpty());
  EXPECT_THAT(kept_of(processor, with({2}), none), ElementsAre(2));
  EXPECT_THAT(kept_of(processor, with(json::array()), none), IsEmpty());
  EXPECT_THAT(kept_of(processor, with(nullptr), none), ElementsAre(0));
  EXPECT_THAT(kept_of(processor, {{"encoder_prompt", with({1})}, {"decoder_prompt", {2}}}, none),
              ElementsAre(1));
  // The length is that of what is left.
  EXPECT_THAT(kept_of(processor, ids, {{"truncate_prompt_tokens", 2}, {"global_attention", {1}}}),
              ElementsAre(1));
}

TEST_F(GlobalAttentionOfRequests, WrongPositionsAreRefusedByName) {
  RequestProcessor led(files_.path(), 1), bart(testing::golden_dir("bart-tiny"), 1);
  const auto error = [](RequestProcessor& processor, const json& prompt, const json& params) {
    try {
      kept_of(processor, prompt, params);
    } catch (const InputError& e) {
      return e.param() + "|" + e.what();
    }
    return std::string();
  };
  const json none = json::object(), ids = {5, 6, 7, 8}, first = {{"global_attention", {0}}};
  const json said = {{"prompt_token_ids", ids}, {"global_attention", {0}}};
  EXPECT_THAT(error(led, ids, {{"global_attention", {0, 4}}}),
              HasSubstr("global_attention|global_attention: position 4 is not one of the encoder's "
                        "4 tokens"));
  EXPECT_THAT(error(led, ids, {{"truncate_prompt_tokens", 2}, {"global_attention", {2}}}),
              HasSubstr("of the encoder's 2 tokens"));
  EXPECT_THAT(error(led, ids, {{"global_attention", {-1}}}), HasSubstr("global_attention|"));
  EXPECT_THAT(error(led, ids, {{"global_attention", "0"}}), HasSubstr("a list of positions"));
  EXPECT_THAT(error(led, said, first), HasSubstr("give one of them"));
  EXPECT_THAT(error(led, said, {{"global_attention", nullptr}}), HasSubstr("give one of them"));
  EXPECT_THAT(error(led, {{"encoder_prompt", ids}, {"decoder_prompt", said}}, none),
              HasSubstr("is of the encoder's tokens"));
  for (const json& prompt : {said, ids})
    EXPECT_THAT(error(bart, prompt, prompt == ids ? first : none),
                HasSubstr("global_attention|global_attention: the model has no global attention"));
  EXPECT_EQ(error(bart, ids, {{"global_attention", nullptr}}), "");
  EXPECT_EQ(error(bart, ids, none), "");
}

// Workers that come after those that died are told of them again.
TEST_F(GlobalAttentionOfRequests, IsKeptForWorkersToCome) {
  RequestProcessor processor(files_.path(), 1);
  const RequestState state(
      "a",
      processor.prepare(read_prompt({5, 6, 7, 8}), read_options({{"global_attention", {1, 3}}})),
      processor.tokenizer(), 0, 0);
  proto::AddRequest add = state.add_request();
  EXPECT_THAT(add.inputs().global_attention(), ElementsAre(1, 3));
  EXPECT_THAT(make_sequence_group(add)->encoder_seq().global_positions(), ElementsAre(1, 3));
  EXPECT_THAT(make_sequence_group(add)->source_key().numbers(),
              ElementsAre(5, 6, 7, 8, -258, -260));
  for (const int32_t bad : {-1, 0, 1, 4}) {
    proto::AddRequest other = add;
    other.mutable_inputs()->set_global_attention(1, bad);
    EXPECT_THROW(make_sequence_group(other), InputError) << bad;
  }
}

}  // namespace
}  // namespace tandem::global_attention_test
