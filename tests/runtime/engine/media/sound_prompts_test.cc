// Sound as a prompt of the synchronous engine: what its windows say, put together, as it comes; and
// sound that is none.
#include "tests/support/engine/sound_prompts.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "runtime/engine/llm_engine.h"
#include "runtime/protocol/output_cursor.h"
#include "tests/support/files/expect_error.h"
#include "tests/support/media/transcripts.h"

namespace tandem {
namespace {

using testing::RandomSpeech;
using testing::said;
using testing::sound_prompt;
using testing::speech_params;

class SoundPrompts : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { model_ = new RandomSpeech; }
  static void TearDownTestSuite() {
    delete model_;
    model_ = nullptr;
  }
  SoundPrompts() : engine_(testing::speech_config(model_->path())) {}

  // Window by window, each alone in the engine, as a transcription asks for them.
  std::string by_hand(const proto::Prompt& prompt) {
    const auto transcription = engine_.processor().prepare(prompt, {}).transcription;
    while (!transcription->done())
      for (const auto& request : transcription->next()) {
        engine_.add_request("window", request.prompt, request.options);
        while (engine_.has_unfinished_requests())
          for (const auto& output : engine_.step()) transcription->take(request.number, output);
      }
    return said(testing::answer_of(*transcription, engine_.tokenizer()));
  }
  std::map<std::string, proto::RequestOutput> run() {
    std::map<std::string, proto::RequestOutput> out;
    while (engine_.has_unfinished_requests()) {
      for (auto& output : engine_.step()) out[output.request_id()] = std::move(output);
      engine_.check_integrity();
    }
    return out;
  }

  static RandomSpeech* model_;
  LLMEngine engine_;
};
RandomSpeech* SoundPrompts::model_ = nullptr;

TEST_F(SoundPrompts, ManyAtOnceSayWhatEachSaysAlone) {
  std::map<std::string, std::string> want;
  std::map<std::string, proto::RequestOutput> streamed;
  std::map<std::string, double> seconds;
  for (int i = 0; i < 12; ++i) {
    const auto prompt = sound_prompt(RandomSpeech::sound(0.3 + 0.7 * i, static_cast<unsigned>(i)),
                                     speech_params(i));
    want[std::to_string(i)] = by_hand(prompt);
  }
  int early = 0;
  engine_.stream_to([&](const proto::RequestChunk& chunk) {
    ASSERT_TRUE(chunk.has_progress());
    EXPECT_GE(chunk.progress().seconds_done(), seconds[chunk.request_id()]);
    seconds[chunk.request_id()] = chunk.progress().seconds_done();
    for (const auto& news : chunk.outputs()) early += !chunk.finished() && news.segments_size() > 0;
    append_chunk(streamed[chunk.request_id()], chunk);
  });
  for (int i = 0; i < 12; ++i)
    engine_.add_request(std::to_string(i),
                        sound_prompt(RandomSpeech::sound(0.3 + 0.7 * i, static_cast<unsigned>(i)),
                                     speech_params(i)),
                        proto::GenerationOptions());
  const auto outputs = run();
  ASSERT_EQ(outputs.size(), 12u);
  int segments = 0;
  for (const auto& [id, output] : outputs) {
    EXPECT_EQ(said(output), want[id]) << id;
    EXPECT_EQ(said(streamed[id]), want[id]) << id;
    EXPECT_GT(output.metrics().total_time(), 0);
    segments += output.outputs(0).segments_size();
  }
  EXPECT_GT(segments, 40);
  EXPECT_GT(early, 20);
  EXPECT_NEAR(seconds["11"], 8, 1e-3);
}

// As any request that begins the output itself.
TEST_F(SoundPrompts, WithADecoderPromptItIsOneWindow) {
  auto prompt = sound_prompt(RandomSpeech::sound(0.8, 1));
  auto& ids = *prompt.mutable_decoder()->mutable_token_ids();
  for (const int id : {61, 63, 64, 67}) ids.add_ids(id);
  proto::GenerationOptions options;
  options.set_max_new_tokens(5);
  options.set_ignore_eos(true);
  engine_.add_request("a", prompt, options);
  EXPECT_EQ(run().at("a").outputs(0).token_ids_size(), 5);
  prompt.mutable_encoder()->mutable_sound()->set_file(RandomSpeech::sound(1.5, 1));
  EXPECT_INPUT_ERROR(engine_.add_request("b", prompt, options), "sound: ");
  engine_.check_integrity();
}

// The rules of times go on behind a prefix; a client's own prompt of the same tokens says nothing
// of times, as in HuggingFace. Of all times only 0 is left, which cannot come twice.
TEST_F(SoundPrompts, APrefixHasBegunTheTextAndAPromptHasNot) {
  constexpr int kWord = 7, kZero = 68, kVocabulary = 119;
  proto::GenerationOptions options;
  options.set_max_new_tokens(4);
  for (int time = kZero + 1; time < kVocabulary; ++time)
    options.mutable_suppress_tokens()->add_ids(time);
  auto params = speech_params(0);
  params.set_language("en");
  params.set_return_timestamps(true);
  params.mutable_prefix_ids()->add_ids(kWord);
  const std::string sound = RandomSpeech::sound(0.8, 1);
  engine_.add_request("prefix", sound_prompt(sound, params), options);
  const auto with_prefix = run().at("prefix").outputs(0).token_ids();
  ASSERT_GT(with_prefix.size(), 2);
  EXPECT_EQ(with_prefix[0], kZero);
  EXPECT_EQ(with_prefix[1], kWord);
  EXPECT_LT(with_prefix[2], kZero) << "a text or the end";
  options.set_return_timestamps(true);
  auto prompt = sound_prompt(sound);
  for (const int id : {61, 63, 64, kZero, kWord})
    prompt.mutable_decoder()->mutable_token_ids()->add_ids(id);
  engine_.add_request("prompt", prompt, options);
  EXPECT_EQ(run().at("prompt").outputs(0).token_ids(0), kZero) << "a time comes first";
}

TEST_F(SoundPrompts, WhatIsNoSoundIsSaid) {
  const auto refused = [&](const std::string& field, const proto::Prompt& prompt,
                           const proto::GenerationOptions& options = {}) {
    EXPECT_INPUT_ERROR(engine_.add_request("a", prompt, options), field + ": ");
    engine_.check_integrity();
    EXPECT_FALSE(engine_.has_unfinished_requests());
  };
  refused("sound", sound_prompt(""));
  refused("sound", sound_prompt("no sound at all"));
  const std::string file = RandomSpeech::sound(1, 1);
  proto::SpeechParams params;
  params.set_language("klingon");
  refused("language", sound_prompt(file, params));
  params.clear_language();
  params.set_return_timestamps(false);
  refused("return_timestamps", sound_prompt(RandomSpeech::sound(3, 1), params));
  proto::GenerationOptions options;
  options.set_max_new_tokens(1000);
  params.Clear();
  params.set_language("en");
  refused("max_new_tokens", sound_prompt(file, params), options);
  options.set_max_new_tokens(5);
  options.set_temperature(-1);
  options.set_do_sample(true);
  auto decoder = sound_prompt(file);
  *decoder.mutable_decoder() = decoder.encoder();
  refused("sound", decoder);
}

TEST_F(SoundPrompts, AWindowThatCannotBeAskedForFailsItLater) {
  proto::SpeechParams params;
  params.set_language("en");
  params.set_condition_on_prev_tokens(true);
  proto::GenerationOptions options;
  options.set_max_new_tokens(29);  // beside a prompt of 3; with a text before it, there is no room
  engine_.add_request("a", sound_prompt(RandomSpeech::sound(6, 2), params), options);
  EXPECT_TRUE(run().empty());
  const auto failures = engine_.take_failures();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].first, "a");
  EXPECT_EQ(failures[0].second.param(), "max_new_tokens");
  EXPECT_TRUE(engine_.take_failures().empty());
}

TEST_F(SoundPrompts, AbortedInTheMiddle) {
  engine_.add_request("a", sound_prompt(RandomSpeech::sound(20, 2)), proto::GenerationOptions());
  for (int i = 0; i < 30; ++i) engine_.step();
  EXPECT_TRUE(engine_.abort_request("a"));
  engine_.check_integrity();
  EXPECT_TRUE(run().empty());
  EXPECT_TRUE(engine_.takes_sound());
}

TEST(SoundForTheDeaf, IsRefusedByItsField) {
  LLMEngine engine(testing::golden_config("bart-tiny"));
  const auto prompt = sound_prompt(RandomSpeech::sound(1, 1));
  EXPECT_INPUT_ERROR(engine.add_request("a", prompt, proto::GenerationOptions()),
                     "sound: ", "bart");
}

}  // namespace
}  // namespace tandem
