// Parameters of speech: names, kinds, bounds.
#include "runtime/protocol/json/speech_params_reader.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem {
namespace {

using nlohmann::json;

TEST(SpeechParams, OneOfEachKind) {
  const proto::SpeechParams p = read_speech_params({{"language", "de"},
                                                    {"return_timestamps", true},
                                                    {"prompt_ids", {5, 6}},
                                                    {"temperature", {0, 0.2}},
                                                    {"logprob_threshold", -1},
                                                    {"stride_length_s", 5},
                                                    {"no_speech_threshold", nullptr}});
  EXPECT_EQ(p.language(), "de");
  EXPECT_TRUE(p.return_timestamps());
  EXPECT_EQ(p.prompt_ids().ids_size(), 2);
  ASSERT_EQ(p.temperature_size(), 2);
  EXPECT_EQ(p.temperature(1), 0.2);
  EXPECT_EQ(p.logprob_threshold(), -1);
  ASSERT_EQ(p.stride_length_s_size(), 1);
  EXPECT_FALSE(p.has_no_speech_threshold());
  ASSERT_EQ(p.off_size(), 1);
  EXPECT_EQ(p.off(0), "no_speech_threshold");
  EXPECT_EQ(read_speech_params(nullptr).ByteSizeLong(), 0U);
}

TEST(SpeechParams, TimesOfWordsAsThePipelineAsksForThem) {
  const auto words = read_speech_params({{"return_timestamps", "word"}});
  EXPECT_TRUE(words.return_timestamps() && words.return_token_timestamps());
  const auto segments = read_speech_params({{"return_timestamps", true}});
  EXPECT_TRUE(segments.return_timestamps() && !segments.has_return_token_timestamps());
}

TEST(SpeechParams, NamesOfFasterWhisper) {
  const auto p = read_speech_params(
      {{"vad_filter", true}, {"vad_parameters", {{"threshold", 0.4}, {"speech_pad_ms", 30}}}});
  EXPECT_TRUE(p.vad_filter());
  EXPECT_EQ(p.vad_threshold(), 0.4);
  EXPECT_EQ(p.vad_speech_pad_ms(), 30);
  EXPECT_FALSE(p.has_vad_min_silence_duration_ms());
  EXPECT_EQ(read_speech_params({{"initial_prompt", "Names"}}).prompt(), "Names");
  EXPECT_EQ(read_speech_params({{"prefix", "Well"}}).prefix(), "Well");
  EXPECT_EQ(read_speech_params({{"prefix", {5, 6}}}).prefix_ids().ids_size(), 2);
  const auto clips = [](const json& value) {
    const auto p = read_speech_params({{"clip_timestamps", value}});
    return std::vector<double>(p.clip_timestamps().begin(), p.clip_timestamps().end());
  };
  EXPECT_EQ(clips("0, 10.5,20"), (std::vector<double>{0, 10.5, 20}));
  EXPECT_EQ(clips({0, 10.5, 20}), (std::vector<double>{0, 10.5, 20}));
  EXPECT_EQ(clips(7), (std::vector<double>{7}));
  EXPECT_TRUE(clips("").empty());
  EXPECT_EQ(read_speech_params({{"initial_prompt", {5, 6}}}).prompt_ids().ids_size(), 2);
}

TEST(SpeechParams, Names) {
  for (const char* name : {"language", "task", "prompt", "temperature", "chunk_length_s"})
    EXPECT_TRUE(is_speech_param(name)) << name;
  for (const char* name : {"off", "", "num_beams", "Language", "vad_if_possible"})
    EXPECT_FALSE(is_speech_param(name)) << name;
}

TEST(SpeechParams, WhatIsRefused) {
  const std::pair<const char*, json> wrong[] = {
      {"language", 5},
      {"language", std::string(1000, 'a')},
      {"return_timestamps", 1},
      {"return_timestamps", "letter"},
      {"return_token_timestamps", "word"},
      {"temperature", "hot"},
      {"temperature", -1},
      {"temperature", std::vector<double>(17, 0.5)},
      {"temperature", json::array()},
      {"prompt", std::string(kMaxSpeechPromptBytes + 1, 'a')},
      {"prompt_ids", {-1}},
      {"prompt_condition_type", "some"},
      {"logprob_threshold", true},
      {"chunk_length_s", -1},
      {"chunk_length_s", 1e9},
      {"stride_length_s", {1, 2, 3}},
      {"off", {"language"}},
      {"vad_filter", "yes"},
      {"vad_threshold", 1.5},
      {"vad_parameters", 0.5},
      {"vad_parameters", {{"filter", 1}}},
      {"vad_max_speech_duration_s", 0},
      {"initial_prompt", 5},
      {"prefix", 5},
      {"prefix", std::string(kMaxSpeechPromptBytes + 1, 'a')},
      {"prefix_ids", {-1}},
      {"clip_timestamps", "1,two"},
      {"clip_timestamps", "1,,2"},
      {"clip_timestamps", "[1]"},
      {"clip_timestamps", {2, 1}},
      {"clip_timestamps", {-1}},
      {"clip_timestamps", {1e7}},
      {"clip_timestamps", std::vector<double>(kMaxClipTimestamps + 1, 0.0)},
      {"hallucination_silence_threshold", -1},
      {"hallucination_silence_threshold", "2"},
      {"multilingual", 1},
      {"language_detection_segments", 0},
      {"language_detection_segments", 1.5},
      {"language_detection_segments", kMaxDetectionSegments + 1},
      {"language_detection_threshold", 1.1},
      {"vad_if_possible", true},
      {"unknown", 1},
  };
  for (const auto& [name, value] : wrong) {
    try {
      read_speech_params({{name, value}});
      ADD_FAILURE() << name << " " << value;
    } catch (const InputError& error) {
      EXPECT_EQ(error.param(), name) << value;
    }
  }
}

// Clients send messages, not JSON.
TEST(SpeechParams, MessagesHaveTheSameBounds) {
  proto::SpeechParams p;
  p.add_temperature(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THROW(check_speech_params(p), InputError);
  p.Clear();
  p.set_logprob_threshold(std::numeric_limits<double>::infinity());
  EXPECT_THROW(check_speech_params(p), InputError);
  p.Clear();
  p.set_chunk_length_s(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THROW(check_speech_params(p), InputError);
  p.Clear();
  for (int i = 0; i <= kMaxSpeechPromptIds; ++i) p.mutable_prompt_ids()->add_ids(1);
  EXPECT_THROW(check_speech_params(p), InputError);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  p.Clear();
  p.add_clip_timestamps(nan);
  EXPECT_THROW(check_speech_params(p), InputError);
  p.Clear();
  p.set_language_detection_segments(nan);
  EXPECT_THROW(check_speech_params(p), InputError);
  p.Clear();
  p.set_hallucination_silence_threshold(nan);
  EXPECT_THROW(check_speech_params(p), InputError);
  p.Clear();
  for (int i = 0; i <= kMaxSpeechPromptIds; ++i) p.mutable_prefix_ids()->add_ids(1);
  EXPECT_THROW(check_speech_params(p), InputError);
}

}  // namespace
}  // namespace tandem
