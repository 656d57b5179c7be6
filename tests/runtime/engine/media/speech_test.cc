// A speech model of random weights: the engine's tokens are those of a plain forward pass in
// doubles, alone and in batches, with the rules of times, from sound to segments.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "runtime/media/sound/transcription.h"
#include "runtime/protocol/json/options_reader.h"
#include "tests/support/files/files.h"
#include "tests/support/goldens/golden_config.h"
#include "tests/support/goldens/plain_speech.h"
#include "tests/support/media/transcripts.h"

namespace tandem::speech_test {
namespace {

using nlohmann::json;
using testing::plain_speech::Ids;
using testing::plain_speech::kBins;
using testing::plain_speech::kEnd;
using testing::plain_speech::kNoTimes;
using testing::plain_speech::kSource;
using testing::plain_speech::kStart;
using testing::plain_speech::kTarget;
using testing::plain_speech::kVocabulary;
using testing::plain_speech::Matrix;
using testing::plain_speech::PlainModel;
using testing::plain_speech::prompt_of;
using testing::plain_speech::random_frames;

std::map<std::string, Ids> run(LLMEngine& engine) {
  std::map<std::string, Ids> out;
  while (engine.has_unfinished_requests())
    for (const auto& output : engine.step()) {
      const auto& ids = output.outputs(0).token_ids();
      out[output.request_id()] = {ids.begin(), ids.end()};
    }
  return out;
}

class Speech : public ::testing::Test {
 protected:
  Speech() : model_(2) { model_.write(dir_); }
  EngineConfig config() const {
    EngineConfig out = testing::golden_config("bart-tiny");
    out.mutable_loading()->set_model(dir_.path().string());
    return out;
  }
  test::TempDir dir_;
  PlainModel model_;
};

TEST_F(Speech, TokensAreThoseOfAPlainForwardPass) {
  LLMEngine engine(config());
  std::mt19937 random(5);
  std::map<std::string, Ids> want, alone;
  const std::vector<int> counts = {40, 1, 2, 7, 40, 39, 24};
  for (size_t i = 0; i < counts.size(); ++i) {
    const Matrix frames = random_frames(random, counts[i]);
    Ids prompt = {kStart, static_cast<int32_t>(i)};
    if (i % 3 == 1) prompt.insert(prompt.begin(), 5);  // text before the start stays before it
    const std::string id = std::to_string(i);
    want[id] = model_.greedy(frames, prompt);
    engine.add_request(id, prompt_of(frames, prompt), read_options(json::object()));
    LLMEngine one(config());
    one.add_request(id, prompt_of(frames, prompt), read_options(json::object()));
    alone.merge(run(one));
  }
  EXPECT_EQ(run(engine), want);
  EXPECT_EQ(alone, want);
}

// Of the same encoder, and of another one.
TEST_F(Speech, ADraftModelChangesNoToken) {
  for (const bool same : {true, false}) {
    test::TempDir draft;
    if (!same) PlainModel(7).write(draft);
    EngineConfig drafting = config();
    drafting.mutable_drafting()->set_draft_model((same ? dir_.path() : draft.path()).string());
    drafting.mutable_drafting()->set_num_speculative_tokens(3);
    drafting.mutable_drafting()->set_draft_cost(0.02);
    drafting.mutable_drafting()->set_draft_dtype("float32");
    drafting.mutable_scheduling()->set_max_num_seqs(2);
    LLMEngine engine(drafting);
    std::mt19937 random(5);
    std::map<std::string, Ids> want;
    for (int i = 0; i < 12; ++i) {
      const Matrix frames = random_frames(random, 10 + i);
      const std::string id = std::to_string(i);
      want[id] = model_.greedy(frames, {kStart});
      engine.add_request(id, prompt_of(frames, {kStart}), read_options(json::object()));
    }
    EXPECT_EQ(run(engine), want);
    const SpeculationStats& stats = engine.scheduler().speculation_stats();
    EXPECT_GT(stats.draft_tokens, 0);
    EXPECT_EQ(stats.accepted_tokens == stats.draft_tokens, same);
  }
}

TEST_F(Speech, FramesBeyondThePositionsAreRefused) {
  LLMEngine engine(config());
  std::mt19937 random(5);
  EXPECT_THROW(
      engine.add_request("x", prompt_of(random_frames(random, 41), {kStart}), read_options({})),
      InputError);
}

TEST_F(Speech, TimesFollowTheirRules) {
  LLMEngine engine(config());
  std::mt19937 random(9);
  for (int i = 0; i < 12; ++i)
    engine.add_request(std::to_string(i), prompt_of(random_frames(random, 40), {kStart}),
                       read_options({{"return_timestamps", true}, {"num_beams", i % 3 ? 1 : 3}}));
  for (const auto& [id, ids] : run(engine)) {
    SCOPED_TRACE(id);
    int32_t last = 0;
    EXPECT_GT(ids.at(0), kNoTimes);
    for (const int32_t token : ids) {
      EXPECT_NE(token, kNoTimes);
      if (token <= kNoTimes) continue;
      EXPECT_GE(token, last);
      last = token;
    }
  }
}

// All windows of a sound through the engine.
TEST_F(Speech, ASoundBecomesSegments) {
  LLMEngine engine(config());
  auto settings = std::make_shared<SpeechSettings>();
  settings->mel.bins = kBins;
  settings->vocab_size = kVocabulary;
  settings->window_frames = 2 * kSource;
  settings->frames_per_position = 2;
  settings->decoder_positions = kTarget;
  settings->decoder_start = kStart;
  settings->end_tokens = {kEnd};
  settings->no_timestamps = kNoTimes;
  settings->max_length = kTarget;
  LogMel mel{kBins, 130, 1.3, {}};
  std::mt19937 random(4);
  for (const auto& row : random_frames(random, 130))
    for (const double x : row) mel.values.push_back(static_cast<float>(x));
  SpeechInput input{1.3, {{mel, 1.3, 0, 0}}, {}};
  Transcription transcription(settings, input, {}, {}, engine.tokenizer());
  int windows = 0;
  while (!transcription.done()) {
    for (const Transcription::Request& next : transcription.next()) {
      ASSERT_LT(++windows, 100);
      engine.add_request(std::to_string(next.number), next.prompt, next.options);
    }
    while (engine.has_unfinished_requests())
      for (const auto& output : engine.step())
        transcription.take(std::stoi(output.request_id()), output);
  }
  EXPECT_GE(windows, 4);
  const proto::RequestOutput result = testing::answer_of(transcription, engine.tokenizer());
  EXPECT_EQ(result.outputs(0).segments_size(), static_cast<int>(transcription.segments().size()));
  EXPECT_GE(result.outputs(0).segments_size(), windows);
  EXPECT_DOUBLE_EQ(transcription.seconds_done(), 1.3);
  EXPECT_EQ(result.inputs().prompt_token_ids(0), kStart);
}

}  // namespace
}  // namespace tandem::speech_test
