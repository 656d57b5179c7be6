// Encoders that read frames, through the whole engine: what comes out is what BART makes of the
// same positions, in batches, with small pools, with caches and without.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "runtime/engine/states/request_state.h"
#include "runtime/protocol/json/options_reader.h"
#include "tests/support/goldens/frames_model.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::frames_test {
namespace {

using nlohmann::json;
using testing::frames_of_ids;
using testing::kFrameWidth;
using testing::prompt_of;

// What is compared of an output.
struct Answer {
  std::vector<std::vector<int>> tokens;
  std::vector<float> embedding;
};

struct Case {
  std::vector<int> ids;
  json params;
  bool pooled = false;
};

std::vector<Case> cases() {
  const json params[] = {
      {{"num_beams", 1}, {"max_new_tokens", 14}},
      {{"num_beams", 3}, {"max_new_tokens", 9}},
      {{"do_sample", true}, {"num_beams", 1}, {"n", 3}, {"seed", 5}, {"max_new_tokens", 12}}};
  std::mt19937 random(7);
  std::vector<Case> out;
  for (size_t i = 0; i < 14; ++i) {
    std::vector<int> ids(1 + random() % 23);
    for (int& id : ids) id = static_cast<int>(random() % kFrameWidth);
    out.push_back({ids, i % 5 == 4 ? json::object() : params[i % 3], i % 5 == 4});
  }
  return out;
}

proto::Prompt of_frames(const Case& c, bool leave_out_last) {
  return prompt_of(frames_of_ids(c.ids, leave_out_last));
}

proto::Prompt of_ids(const Case& c) {
  proto::Prompt out;
  out.mutable_encoder()->mutable_token_ids()->mutable_ids()->Assign(c.ids.begin(), c.ids.end());
  return out;
}

void add(LLMEngine& engine, const std::string& id, proto::Prompt prompt, const Case& c) {
  if (c.pooled) prompt.mutable_pooling()->set_kind(proto::Pooling::MEAN);
  engine.add_request(id, prompt, read_options(c.params));
}

std::map<std::string, Answer> run(LLMEngine& engine) {
  std::map<std::string, Answer> out;
  for (int i = 0; engine.has_unfinished_requests() && i < 100000; ++i) {
    for (const auto& output : engine.step()) {
      Answer& answer = out[output.request_id()];
      for (const auto& sequence : output.outputs())
        answer.tokens.emplace_back(sequence.token_ids().begin(), sequence.token_ids().end());
      answer.embedding = {output.embedding().values().begin(), output.embedding().values().end()};
      if (output.inputs().has_encoder_frames()) {
        const proto::EncoderFrames& frames = output.inputs().encoder_frames();
        EXPECT_EQ(frames.length(), (frames.num_frames() + 1) / 2);
        EXPECT_EQ(frames.values_size(), 0) << "the client has them";
      }
    }
    engine.check_integrity();
  }
  EXPECT_FALSE(engine.has_unfinished_requests());
  return out;
}

void expect_same(const std::map<std::string, Answer>& got,
                 const std::map<std::string, Answer>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [id, answer] : want) {
    SCOPED_TRACE(id);
    const Answer& other = got.at(id);
    EXPECT_EQ(other.tokens, answer.tokens);
    ASSERT_EQ(other.embedding.size(), answer.embedding.size());
    for (size_t k = 0; k < answer.embedding.size(); ++k)
      EXPECT_NEAR(other.embedding[k], answer.embedding[k], 1e-5);
  }
}

EngineConfig frames_config(const testing::FramesCheckpoint& checkpoint) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_loading()->set_model(checkpoint.path().string());
  return config;
}

class Frames : public ::testing::Test {
 protected:
  std::map<std::string, Answer> of_bart() {
    LLMEngine bart(testing::golden_config("bart-tiny"));
    const auto all = cases();
    for (size_t i = 0; i < all.size(); ++i) add(bart, std::to_string(i), of_ids(all[i]), all[i]);
    return run(bart);
  }
  std::map<std::string, Answer> of_frames_together(LLMEngine& engine) {
    const auto all = cases();
    for (size_t i = 0; i < all.size(); ++i)
      add(engine, std::to_string(i), of_frames(all[i], i % 2 == 0), all[i]);
    return run(engine);
  }

  testing::FramesCheckpoint checkpoint_;
};

TEST_F(Frames, ABatchSaysWhatBartSays) {
  LLMEngine engine(frames_config(checkpoint_));
  expect_same(of_frames_together(engine), of_bart());
  EXPECT_EQ(engine.scheduler().num_preemptions(), 0);
}

TEST_F(Frames, SoDoesEachAlone) {
  LLMEngine engine(frames_config(checkpoint_));
  std::map<std::string, Answer> got;
  const auto all = cases();
  for (size_t i = 0; i < all.size(); ++i) {
    add(engine, std::to_string(i), of_frames(all[i], i % 3 == 0), all[i]);
    got.merge(run(engine));
  }
  expect_same(got, of_bart());
}

TEST_F(Frames, AlsoWithSmallPoolsAndBudgets) {
  const auto want = of_bart();
  for (const PreemptionMode mode : {PreemptionMode::kRecompute, PreemptionMode::kSwap})
    for (const bool caches : {true, false}) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(mode) << ", caches " << caches);
      EngineConfig config = frames_config(checkpoint_);
      config.mutable_cache()->set_block_size(4);
      config.mutable_cache()->set_num_gpu_blocks_override(30);
      config.mutable_scheduling()->set_max_num_batched_tokens(30);
      config.mutable_scheduling()->set_preemption_mode(testing::preemption_name(mode));
      config.mutable_cache()->set_enable_encoder_cache(caches);
      config.mutable_cache()->set_enable_prefix_caching(caches);
      LLMEngine engine(config);
      expect_same(of_frames_together(engine), want);
      EXPECT_GT(engine.scheduler().num_preemptions(), 0);
      if (caches) expect_same(of_frames_together(engine), want);  // found again, what is left
    }
}

// Numbers that are no ids: what one request says alone, it says in company, and the cache tells
// requests apart that differ in one number.
TEST_F(Frames, AnyNumbers) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.7F);
  const Case greedy{{}, {{"num_beams", 1}, {"max_new_tokens", 12}}};
  std::vector<proto::EncoderFrames> inputs;
  for (const int count : {1, 2, 7, 30, 31, 200}) {
    proto::EncoderFrames& frames = inputs.emplace_back();
    frames.set_num_frames(count);
    frames.set_width(kFrameWidth);
    for (int i = 0; i < count * kFrameWidth; ++i) frames.add_values(normal(random));
  }
  inputs.push_back(inputs[3]);
  inputs.back().set_values(17, 40);
  inputs.push_back(inputs[3]);  // the same once more
  std::map<std::string, Answer> alone;
  for (size_t i = 0; i < inputs.size(); ++i) {
    EngineConfig config = frames_config(checkpoint_);
    config.mutable_cache()->set_enable_encoder_cache(false);
    config.mutable_cache()->set_enable_prefix_caching(false);
    LLMEngine engine(config);
    add(engine, std::to_string(i), prompt_of(inputs[i]), greedy);
    alone.merge(run(engine));
  }
  EXPECT_EQ(alone.at("3").tokens, alone.at("7").tokens);
  LLMEngine engine(frames_config(checkpoint_));
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < inputs.size(); ++i)
      add(engine, std::to_string(i), prompt_of(inputs[i]), greedy);
    expect_same(run(engine), alone);
    // The last one is the fourth again; then all are there.
    EXPECT_EQ(engine.scheduler().block_manager().cache_stats().encoder_hits, round == 0 ? 1 : 9);
  }
}

TEST_F(Frames, WrongPromptsAreRefusedByName) {
  LLMEngine engine(frames_config(checkpoint_));
  const auto expect = [&](const std::string& param, auto change, const json& params) {
    proto::Prompt prompt = prompt_of(frames_of_ids({5, 6, 7}, false));
    change(prompt);
    try {
      engine.add_request("x", prompt, read_options(params));
      ADD_FAILURE() << param;
    } catch (const InputError& error) {
      EXPECT_EQ(error.param(), param) << error.what();
    }
  };
  const std::string field = "prompt.encoder_prompt";
  const auto frames = [](auto change) {
    return [change](proto::Prompt& p) { change(*p.mutable_encoder()->mutable_frames()); };
  };
  using Values = proto::EncoderFrames;
  const json none = json::object();
  expect(
      field, [](auto& p) { p.mutable_encoder()->set_text("words"); }, none);
  expect(
      field, [](auto& p) { p.mutable_encoder()->mutable_token_ids()->add_ids(5); }, none);
  expect(
      "decoder_prompt", [](auto& p) { p.mutable_decoder()->mutable_frames(); }, none);
  expect(field + ".num_frames", frames([](Values& f) { f.set_num_frames(0); }), none);
  expect(field + ".num_frames", frames([](Values& f) { f.set_num_frames(-3); }), none);
  expect(field + ".width", frames([](Values& f) { f.set_width(0); }), none);
  expect(field + ".values", frames([](Values& f) { f.add_values(1); }), none);
  expect(field + ".values", frames([](Values& f) { f.set_width(1 << 30); }), none);
  expect(field + ".values", frames([](Values& f) { f.set_values(9, std::nanf("")); }), none);
  expect(field + ".values",
         frames([](Values& f) { f.set_values(0, std::numeric_limits<float>::infinity()); }), none);
  expect(field + ".length", frames([](Values& f) { f.set_length(-1); }), none);
  expect(field + ".length", frames([](Values& f) { f.set_length(6); }), none);
  expect(field + ".width", frames([](Values& f) {
           f.set_width(kFrameWidth / 2);
           f.set_num_frames(12);
         }),
         none);
  expect(field, frames([](Values& f) {
           f.set_num_frames(257);
           f.mutable_values()->Resize(257 * kFrameWidth, 0);
         }),
         none);
  const auto same = [](proto::Prompt&) {};
  expect("truncate_prompt_tokens", same, {{"truncate_prompt_tokens", 4}});
  expect("encoder_no_repeat_ngram_size", same,
         {{"encoder_no_repeat_ngram_size", 2}, {"num_beams", 1}});
  expect("encoder_repetition_penalty", same, {{"encoder_repetition_penalty", 1.3}});
  EXPECT_FALSE(engine.has_unfinished_requests());
  // A model of ids.
  LLMEngine bart(testing::golden_config("bart-tiny"));
  try {
    bart.add_request("x", prompt_of(frames_of_ids({5}, false)), {});
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), field) << error.what();
  }
}

// Workers that come after those that died get the frames again.
TEST_F(Frames, AreKeptForWorkersToCome) {
  RequestProcessor processor(checkpoint_.path(), 1);
  RequestState state("a", processor.prepare(prompt_of(frames_of_ids({5, 6, 7}, true)), {}),
                     processor.tokenizer(), 0, 0);
  for (int i = 0; i < 2; ++i) {
    const proto::AddRequest again = state.add_request();
    EXPECT_EQ(again.inputs().encoder_frames().length(), 3);
    EXPECT_EQ(again.inputs().encoder_frames().num_frames(), 5);
    EXPECT_EQ(again.inputs().encoder_frames().values_size(), 5 * kFrameWidth);
  }
}

}  // namespace
}  // namespace tandem::frames_test
