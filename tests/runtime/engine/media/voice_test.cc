// Transcriptions of sound whose silence is cut out first.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/engine/llm_engine.h"
#include "runtime/media/sound/audio_file.h"
#include "tests/support/engine/sound_prompts.h"
#include "tests/support/files/expect_error.h"
#include "tests/support/goldens/random_speech.h"
#include "tests/support/media/transcripts.h"
#include "tests/support/media/voice_weights.h"

namespace tandem::voice_test {
namespace {

constexpr int kRate = VoiceNetwork::kRate;

class VoiceFilterInAnEngine : public ::testing::Test {
 protected:
  VoiceFilterInAnEngine()
      : network_(write_voice_file(folder_, testing::random_voice_tensors(11))),
        config_(testing::speech_config(model_.path())) {
    config_.set_vad_model(network_.string());
    AudioFile file = AudioFile::of_bytes(sound_, "sound", kRate);
    for (std::vector<float> part; file.read(part);)
      samples_.insert(samples_.end(), part.begin(), part.end());
  }

  // Finds speech in half of the sound, with whatever weights.
  proto::SpeechParams half() const {
    std::vector<float> all;
    const size_t whole = samples_.size() / VoiceNetwork::kWindow * VoiceNetwork::kWindow;
    VoiceNetwork(VoiceWeights::load(network_)).add(std::span(samples_).first(whole), all);
    std::nth_element(all.begin(), all.begin() + std::ssize(all) / 2, all.end());
    proto::SpeechParams out;
    out.set_vad_filter(true);
    out.set_vad_threshold(double{all[all.size() / 2]});
    out.set_vad_neg_threshold(out.vad_threshold());
    out.set_vad_min_silence_duration_ms(200);
    out.set_vad_speech_pad_ms(50);
    return out;
  }
  proto::RequestOutput transcribed(const std::string& sound, const proto::SpeechParams& params,
                                   const EngineConfig& config) const {
    LLMEngine engine(config);
    engine.add_request("a", testing::sound_prompt(sound, params), proto::GenerationOptions());
    proto::RequestOutput out;
    while (engine.has_unfinished_requests())
      for (const auto& output : engine.step()) out = output;
    return out;
  }

  const test::TempDir folder_;
  const std::filesystem::path network_;
  const testing::RandomSpeech model_;
  const std::string sound_ = testing::RandomSpeech::sound(9.7, 4);
  std::vector<float> samples_;
  EngineConfig config_;
};

// It says what it says of the speech alone, at the times of the sound.
TEST_F(VoiceFilterInAnEngine, TranscribesTheSpeechAtItsTimes) {
  for (const int kind : {0, 3, 4}) {  // alone, in chunks, with times of words
    SCOPED_TRACE(kind);
    proto::SpeechParams params = half();
    params.MergeFrom(testing::speech_params(kind));
    params.set_return_timestamps(true);
    const proto::RequestOutput got = transcribed(sound_, params, config_);

    std::vector<float> speech;
    VoiceFilter filter(VoiceWeights::load(network_), VoiceOptions::of(params),
                       [&](std::span<const float> part) {
                         speech.insert(speech.end(), part.begin(), part.end());
                       });
    filter.add(samples_);
    const std::vector<SpeechSpan> spans = filter.finish();
    ASSERT_GT(spans.size(), 1u);
    params.set_vad_filter(false);
    const proto::RequestOutput want =
        transcribed(testing::float_wav(speech, kRate), params, config_);
    ASSERT_EQ(got.outputs(0).text(), want.outputs(0).text());
    ASSERT_EQ(got.outputs(0).segments_size(), want.outputs(0).segments_size());
    EXPECT_GT(got.outputs(0).segments_size(), 1);
    const SpeechClock clock(spans, kRate);
    for (int i = 0; i < got.outputs(0).segments_size(); ++i) {
      const auto &ours = got.outputs(0).segments(i), &theirs = want.outputs(0).segments(i);
      ASSERT_EQ(ours.words_size(), theirs.words_size());
      for (int w = 0; w < ours.words_size(); ++w) {
        const auto word = clock.word(theirs.words(w).start(), theirs.words(w).end());
        EXPECT_DOUBLE_EQ(ours.words(w).start(), word.first);
        EXPECT_DOUBLE_EQ(ours.words(w).end(), word.second);
      }
      if (ours.words_size() > 0) continue;
      EXPECT_DOUBLE_EQ(ours.start(), clock.begin(theirs.start()));
      EXPECT_DOUBLE_EQ(ours.end(), clock.end(theirs.end()));
    }
  }
}

TEST_F(VoiceFilterInAnEngine, AllSpeechIsTheWholeSound) {
  proto::SpeechParams params = testing::speech_params(1);
  const std::string want = testing::said(transcribed(sound_, params, config_));
  params.set_vad_filter(true);
  params.set_vad_threshold(0);
  EXPECT_EQ(testing::said(transcribed(sound_, params, config_)), want);
}

TEST_F(VoiceFilterInAnEngine, SilenceSaysNothing) {
  for (const int kind : {0, 3}) {
    proto::SpeechParams params = testing::speech_params(kind);
    params.set_vad_filter(true);
    params.set_vad_threshold(1);
    const proto::RequestOutput out = transcribed(sound_, params, config_);
    EXPECT_TRUE(out.finished());
    EXPECT_EQ(out.outputs(0).text(), "");
    EXPECT_EQ(out.outputs(0).segments_size(), 0);
    EXPECT_EQ(out.outputs(0).finish_reason(), "stop");
    EXPECT_GE(out.metrics().queue_time(), 0);
  }
}

TEST_F(VoiceFilterInAnEngine, WithoutANetworkItSaysSo) {
  EngineConfig config = config_;
  config.clear_vad_model();
  if (VoiceWeights::find_installed()) GTEST_SKIP() << "silero-vad is installed";
  proto::SpeechParams params;
  params.set_vad_filter(true);
  // (Without --no-deps it would bring gigabytes that are not used.)
  EXPECT_INPUT_ERROR(transcribed(sound_, params, config),
                     "vad_filter: ", "pip install --no-deps silero-vad");
  params.set_vad_if_possible(true);
  EXPECT_FALSE(transcribed(sound_, params, config).outputs(0).text().empty());
  config.set_vad_model("/nowhere.safetensors");
  EXPECT_INPUT_ERROR(transcribed(sound_, {}, config), "/nowhere.safetensors");
}

}  // namespace
}  // namespace tandem::voice_test
