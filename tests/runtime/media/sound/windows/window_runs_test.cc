// Which windows are asked for, and with which prompts: faster-whisper's prefix, hotwords,
// clip_timestamps, multilingual and search for the language, beside its own loops on made-up texts.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "models/family.h"
#include "runtime/media/sound/transcription.h"
#include "runtime/media/sound/windows/clip_times.h"
#include "runtime/media/sound/windows/language_search.h"
#include "runtime/protocol/json/speech_params_reader.h"
#include "tests/support/files/files.h"
#include "tests/support/media/speech_settings.h"

namespace tandem::window_runs_test {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

constexpr int32_t kEndOfText = 500, kZero = 607;

const Tokenizer& tokenizer() {
  static const auto loaded = load_tokenizer(test::golden("whisper-tiny-rand"));
  return *loaded;
}

// Frame i has i + 1 in its first bin.
SpeechInput counted(int64_t frames) {
  LogMel mel{2, frames, static_cast<double>(frames) / 100, {}};
  for (int64_t i = 0; i < frames; ++i)
    mel.values.insert(mel.values.end(), 2, static_cast<float>(i + 1));
  SpeechInput out{mel.seconds, {}};
  out.pieces.push_back({std::move(mel), out.seconds});
  return out;
}

constexpr int32_t kEn = 502, kDe = 504;  // as the tokenizer has them

Transcription begin(int64_t frames, json request) {
  if (!request.contains("return_timestamps")) request["return_timestamps"] = true;
  auto settings = testing::whisper_settings();
  settings->languages = {{"<|en|>", kEn}, {"<|de|>", kDe}};
  return Transcription(settings, counted(frames), read_speech_params(request), {}, tokenizer());
}

Ids prompt_of(const PartRequest& request) {
  const auto& ids = request.prompt.decoder().token_ids().ids();
  return {ids.begin(), ids.end()};
}

// [first frame, frames] that are not silence.
std::pair<int64_t, int64_t> heard(const PartRequest& request) {
  const auto& frames = request.prompt.encoder().frames();
  EXPECT_EQ(frames.num_frames(), 3000);
  int64_t count = 0;
  while (count < 3000 && frames.values(static_cast<int>(2 * count)) > 0) ++count;
  return {static_cast<int64_t>(frames.values(0)) - 1, count};
}

proto::RequestOutput answer(Ids ids, double logprob = 0) {
  proto::RequestOutput out;
  out.add_outputs()->mutable_token_ids()->Assign(ids.begin(), ids.end());
  out.mutable_outputs(0)->set_cumulative_logprob(logprob);
  return out;
}

PartRequest only(Transcription& t) {
  std::vector<PartRequest> all = t.next();
  EXPECT_EQ(all.size(), 1U);
  return all.empty() ? PartRequest() : std::move(all[0]);
}

bool asks_for_language(const PartRequest& request) {
  return !request.options.allowed_token_ids().ids().empty();
}

void run(const json& c) {
  Transcription t = begin(c["frames"], c["request"]);
  for (const json& found : c["search"]) {
    if (c["windows"].empty()) break;  // there faster-whisper hears the sound's beginning
    const PartRequest request = only(t);
    ASSERT_TRUE(asks_for_language(request));
    t.take(request.number, answer({found[0].get<int32_t>()}, std::log(found[1].get<double>())));
  }
  for (const json& window : c["windows"]) {
    PartRequest request = only(t);
    const std::pair<int64_t, int64_t> place{window["begin"], window["frames"]};
    EXPECT_EQ(asks_for_language(request), !window["language"].is_null());
    if (asks_for_language(request)) {
      EXPECT_EQ(heard(request), place);
      t.take(request.number, answer({window["language"].get<int32_t>()}));
      request = only(t);
    }
    EXPECT_EQ(heard(request), place);
    EXPECT_EQ(prompt_of(request), window["prompt"].get<Ids>());
    Ids said = window["said"];
    said.push_back(kEndOfText);
    t.take(request.number, answer(said));
  }
  ASSERT_TRUE(t.done());
  if (!c["windows"].empty()) {
    EXPECT_EQ(t.language(), "<|" + c["language"].get<std::string>() + "|>");
  }
  ASSERT_EQ(t.segments().size(), c["segments"].size());
  for (size_t i = 0; i < t.segments().size(); ++i) {
    const proto::SpeechSegment& segment = t.segments()[i];
    EXPECT_NEAR(segment.start(), c["segments"][i][0], 1e-6);
    EXPECT_NEAR(segment.end(), c["segments"][i][1], 0.011);  // HuggingFace's are 20 ms apart
    Ids texts;
    for (const int32_t id : segment.token_ids())
      if (id < kEndOfText) texts.push_back(id);
    EXPECT_EQ(texts, c["segments"][i][2].get<Ids>());
  }
}

TEST(WindowRuns, AsFasterWhispers) {
  const json all =
      json_from<json>(test::read_file(test::test_root() / "tests/data/speech/windows.json"));
  size_t number = 0;
  for (const json& c : all["runs"]) {
    SCOPED_TRACE("run " + std::to_string(number++) + " " + c["request"].dump());
    run(c);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(WindowRuns, APrefixIsPartOfTheText) {
  const json words = {{"language", "en"}, {"prefix", {424, 310}}, {"hotwords", "there"}};
  Transcription t = begin(4000, words);
  PartRequest request = only(t);
  EXPECT_EQ(prompt_of(request), (Ids{501, 502, 602, kZero, 424, 310}));
  EXPECT_EQ(request.prefix_tokens, 3);
  t.take(request.number, answer({332, kZero + 1000, kZero + 1000, kEndOfText}, -4));
  ASSERT_EQ(t.segments().size(), 1U);
  const auto& ids = t.segments()[0].token_ids();
  EXPECT_EQ(Ids(ids.begin(), ids.end()), (Ids{kZero, 424, 310, 332, kZero + 1000, kZero + 1000}));
  EXPECT_DOUBLE_EQ(t.segments()[0].avg_logprob(), -1);  // of what was generated
  EXPECT_EQ(t.first_prompt(), (Ids{501, 502, 602}));
  request = only(t);
  EXPECT_EQ(heard(request).first, 2000);
  EXPECT_EQ(request.prefix_tokens, 0) << "the first window's alone";
  // Without times it stands behind the token that says so.
  json plain = words;
  plain["return_timestamps"] = false;
  Transcription short_one = begin(3000, plain);
  EXPECT_EQ(prompt_of(only(short_one)), (Ids{501, 502, 602, 606, 424, 310}));
}

TEST(WindowRuns, OnlyTheFirstChunkHasAPrefix) {
  SpeechInput input = counted(1000);
  input.pieces.push_back(input.pieces[0]);
  Transcription t(
      testing::whisper_settings(), std::move(input),
      read_speech_params({{"language", "en"}, {"chunk_length_s", 10}, {"prefix", {424}}}), {},
      tokenizer());
  const auto all = t.next();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(prompt_of(all[0]).back(), 424);
  EXPECT_EQ(prompt_of(all[1]).back(), 606);
}

// Also one that a clip's begin makes late.
TEST(WindowRuns, AWordOfAClipDoesNotBeginBeforeIt) {
  auto settings = testing::whisper_settings();
  settings->alignment_heads = {{1, 0}};
  Transcription t(
      settings, counted(9000),
      read_speech_params(
          {{"language", "en"}, {"return_timestamps", "word"}, {"clip_timestamps", "20,30,70"}}),
      {}, tokenizer());
  for (const double begin : {20, 70}) {
    PartRequest request = only(t);
    EXPECT_EQ(heard(request).first, std::llround(begin * 100));
    t.take(request.number, answer({kZero, 424, kZero + 500, kEndOfText}));
    request = only(t);
    const auto& wanted = request.prompt.pooling().alignment();
    EXPECT_EQ(wanted.positions(), begin == 20 ? 500 : 1000);
    proto::RequestOutput weights;
    for (int r = 0; r < 3; ++r)
      for (int p = 0; p < wanted.positions(); ++p)
        weights.mutable_embedding()->add_values(p * 3 / wanted.positions() == r ? 0.9F : 0.1F);
    t.take(request.number, weights);
    const proto::SpeechSegment& segment = *t.segments().rbegin();
    ASSERT_EQ(segment.words_size(), 1);
    EXPECT_GE(segment.words(0).start(), begin);
    EXPECT_LE(segment.words(0).end(), begin + 10);
  }
  EXPECT_TRUE(t.done());
}

TEST(WindowRuns, NoClipIsInTheSound) {
  Transcription t = begin(1000, {{"clip_timestamps", {20, 30}}});
  EXPECT_TRUE(t.done());
  EXPECT_TRUE(t.segments().empty());
  EXPECT_DOUBLE_EQ(t.seconds_done(), 10);
}

// Long sound needs times only where a clip does.
TEST(WindowRuns, ClipsOfAWindowNeedNoTimes) {
  const json plain = {{"language", "en"}, {"return_timestamps", false}};
  EXPECT_THROW(begin(4000, plain), InputError);
  json clips = plain;
  clips["clip_timestamps"] = "5,10,30";
  EXPECT_FALSE(begin(4000, clips).times());
}

TEST(ClipTimes, OfASound) {
  using Clips = std::vector<SoundClip>;
  EXPECT_EQ(clips_of({1, 2, 3}, 1000, 100), (Clips{{100, 200}, {300, 1000}}));
  EXPECT_EQ(clips_of({0.125, 0.135, 5, 5, 8, 90}, 1000, 100), (Clips{{12, 14}, {800, 1000}}));
  EXPECT_EQ(clips_of({10}, 1000, 100), Clips());
  EXPECT_EQ(clips_of({1e6, 1e6}, 1000, 100), Clips());
  EXPECT_FALSE(names_clips(read_speech_params({{"clip_timestamps", "0"}})));
  EXPECT_FALSE(names_clips(read_speech_params({{"clip_timestamps", {0.0}}})));
  EXPECT_FALSE(names_clips(read_speech_params({})));
  EXPECT_TRUE(names_clips(read_speech_params({{"clip_timestamps", "0,5"}})));
  EXPECT_TRUE(names_clips(read_speech_params({{"clip_timestamps", 5}})));
}

TEST(LanguageSearch, SureOrMost) {
  LanguageSearch sure(3, 0.5);
  sure.add(7, 0.5);  // not above it
  EXPECT_FALSE(sure.done());
  sure.add(8, 0.6);
  ASSERT_TRUE(sure.done());
  EXPECT_EQ(sure.language(), 8);
  LanguageSearch most(3, 1);
  for (const int32_t id : {7, 8, 8}) most.add(id, 0.9);
  EXPECT_EQ(most.language(), 8);
  LanguageSearch tie(2, 1);
  for (const int32_t id : {7, 8}) tie.add(id, 0.9);
  EXPECT_EQ(tie.language(), 7);
  LanguageSearch one(1, 1);
  one.add(9, 0);
  EXPECT_TRUE(one.done() && !one.compares());
}

TEST(WindowRuns, WhatIsWrongIsNamed) {
  const std::pair<const char*, json> wrong[] = {
      {"prefix", {{"prefix", "a <|endoftext|>"}}},
      {"prefix_ids", {{"prefix_ids", {kZero}}}},
      {"prefix_ids", {{"prefix_ids", {501}}}},
      {"prefix_ids", {{"prefix_ids", {1000000}}}},
      {"clip_timestamps", {{"clip_timestamps", "1,2"}, {"chunk_length_s", 10}}},
      {"hallucination_silence_threshold", {{"hallucination_silence_threshold", 1}}},
      {"prefix", {{"prefix", std::string(400, '!')}, {"prompt", std::string(400, '!')}}},
  };
  for (auto [name, request] : wrong) {
    request["language"] = "en";
    try {
      Transcription t = begin(3000, request);
      t.next();
      ADD_FAILURE() << name << " " << request;
    } catch (const InputError& error) {
      EXPECT_EQ(error.param(), name) << error.what();
    }
  }
  auto english = testing::whisper_settings();
  english->multilingual = false;
  english->languages.clear();
  Transcription t(english, counted(3000), read_speech_params({{"multilingual", true}}), {},
                  tokenizer());
  EXPECT_FALSE(asks_for_language(only(t)));  // as faster-whisper's, which only warns
  auto none = testing::whisper_settings();
  none->languages.clear();
  try {
    Transcription(none, counted(3000), read_speech_params({{"multilingual", true}}), {},
                  tokenizer());
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), "multilingual");
  }
}

}  // namespace
}  // namespace tandem::window_runs_test
