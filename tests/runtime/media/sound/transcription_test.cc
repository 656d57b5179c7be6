// Transcriptions window by window, with answers made up: prompts, lengths, where windows begin.
#include "runtime/media/sound/transcription.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

constexpr int32_t kStart = 501, kEn = 502, kDe = 503, kTranslate = 601, kTranscribe = 602,
                  kPrev = 604, kNone = 606, kTime = 607, kEnd = 500;

std::shared_ptr<SpeechSettings> settings() {
  auto out = std::make_shared<SpeechSettings>();
  out->mel.bins = 2;
  out->window_frames = 3000;
  out->frames_per_position = 2;
  out->decoder_positions = 64;
  out->decoder_start = kStart;
  out->end_tokens = {kEnd};
  out->languages = {{"<|en|>", kEn}, {"<|de|>", kDe}};
  out->tasks = {{"transcribe", kTranscribe}, {"translate", kTranslate}};
  out->multilingual = true;
  out->no_timestamps = kNone;
  out->prev_start = kPrev;
  out->max_length = 64;
  return out;
}

LogMel sound(int64_t frames) {
  LogMel out{2, frames, static_cast<double>(frames) / 100, {}};
  for (int64_t i = 0; i < 2 * frames; ++i) out.values.push_back(static_cast<float>(i + 1));
  return out;
}

Transcription make(int64_t frames, const json& params, proto::GenerationOptions options = {},
                   const std::shared_ptr<SpeechSettings>& with = settings()) {
  return Transcription(with, sound(frames), TranscriptionParams::read(params), std::move(options));
}

Ids prompt_of(const Transcription::Request& request) {
  const auto& ids = request.prompt.decoder().token_ids().ids();
  return {ids.begin(), ids.end()};
}

proto::RequestOutput answer(const Ids& ids) {
  proto::RequestOutput out;
  out.add_outputs()->mutable_token_ids()->Assign(ids.begin(), ids.end());
  return out;
}

TEST(Transcription, PromptsOfLanguageAndTask) {
  const auto first = [](const json& params) { return prompt_of(*make(3000, params).next()); };
  EXPECT_EQ(first({{"language", "en"}}), (Ids{kStart, kEn, kTranscribe, kNone}));
  EXPECT_EQ(first({{"language", "German"}, {"task", "translate"}}),
            (Ids{kStart, kDe, kTranslate, kNone}));
  EXPECT_EQ(first({{"language", "<|de|>"}, {"return_timestamps", true}}),
            (Ids{kStart, kDe, kTranscribe}));
  EXPECT_EQ(first({{"language", "de"}, {"prompt_ids", {kPrev, 1, 2}}}),
            (Ids{kPrev, 1, 2, kStart, kDe, kTranscribe, kNone}));
}

TEST(Transcription, ALanguageIsFoundFirst) {
  Transcription t = make(3000, {{"task", "translate"}});
  const auto request = t.next();
  EXPECT_EQ(prompt_of(*request), Ids{kStart});
  EXPECT_EQ(request->options.max_new_tokens(), 1);
  EXPECT_EQ(request->options.allowed_token_ids().ids_size(), 2);
  t.take(answer({kDe}));
  EXPECT_EQ(prompt_of(*t.next()), (Ids{kStart, kDe, kTranslate, kNone}));
  // Without a task none is put there.
  Transcription plain = make(3000, {});
  plain.next();
  plain.take(answer({kEn}));
  EXPECT_EQ(prompt_of(*plain.next()), (Ids{kStart, kEn, kNone}));
}

TEST(Transcription, PromptsOfOldFiles) {
  auto old = settings();
  old->forced_prompt = {{1, std::nullopt}, {2, kTranscribe}};
  Transcription found = make(3000, {}, {}, old);
  EXPECT_EQ(found.next()->options.max_new_tokens(), 1);
  found.take(answer({kDe}));
  EXPECT_EQ(prompt_of(*found.next()), (Ids{kStart, kDe, kTranscribe, kNone}));
  old->forced_prompt = {{1, kEn}, {2, kTranscribe}, {3, kNone}};
  EXPECT_EQ(prompt_of(*make(3000, {{"return_timestamps", true}}, {}, old).next()),
            (Ids{kStart, kEn, kTranscribe}));
  old->forced_prompt = {{1, kEn}, {3, kNone}};
  EXPECT_THROW(make(3000, {}, {}, old), InputError);
}

// The second window begins at the last pair; the last one has zeros behind its sound.
TEST(Transcription, WindowsFollowTimes) {
  Transcription t = make(4000, {{"language", "en"}});
  auto request = t.next();
  EXPECT_TRUE(request->options.return_timestamps());  // it is long
  EXPECT_EQ(request->options.max_length(), 64);
  EXPECT_EQ(request->prompt.encoder().frames().num_frames(), 3000);
  EXPECT_EQ(request->prompt.encoder().frames().values(0), 1);
  t.take(answer({kTime, 7, kTime + 750, kTime + 750, 8, kEnd}));
  EXPECT_DOUBLE_EQ(t.seconds_done(), 15);
  request = t.next();
  const auto& frames = request->prompt.encoder().frames();
  EXPECT_EQ(frames.values(0), 2 * 1500 + 1);
  EXPECT_EQ(frames.values(2 * 2500 - 1), 8000);
  EXPECT_EQ(frames.values(2 * 2500), 0);
  EXPECT_EQ(frames.values_size(), 6000);
  t.take(answer({kTime + 50, 9, kTime + 100, kEnd}));
  EXPECT_FALSE(t.next());
  ASSERT_EQ(t.segments().size(), 2U);
  EXPECT_DOUBLE_EQ(t.segments()[0].end(), 15);
  EXPECT_DOUBLE_EQ(t.segments()[1].start(), 15);
  EXPECT_DOUBLE_EQ(t.segments()[1].end(), 17);
}

TEST(Transcription, TextBeforeGoesIntoThePrompt) {
  Transcription t = make(9000, {{"language", "en"}, {"condition_on_prev_tokens", true}});
  EXPECT_EQ(prompt_of(*t.next()), (Ids{kStart, kEn, kTranscribe}));
  t.take(answer({kTime, 7, kTime + 750, kTime + 750, kEnd}));
  EXPECT_EQ(prompt_of(*t.next()), (Ids{kPrev, kTime, 7, kTime + 750, kStart, kEn, kTranscribe}));
  Ids many(50, 9);
  many.push_back(kTime + 1400);
  t.take(answer(many));
  const Ids prompt = prompt_of(*t.next());
  EXPECT_EQ(prompt.size(), 1U + 31 + 3);  // half of the positions but one
  EXPECT_EQ(prompt[1], 9);
  EXPECT_EQ(prompt[31], kTime + 1400);
}

TEST(Transcription, PromptsOfAllSegments) {
  const json params = {
      {"language", "en"}, {"condition_on_prev_tokens", true}, {"prompt_ids", {kPrev, 1}}};
  json all = params;
  all["prompt_condition_type"] = "all-segments";
  for (const auto& [p, want] :
       {std::pair(params, Ids{kPrev, 1, kTime, 7, kTime + 9, kStart, kEn, kTranscribe}),
        std::pair(all, Ids{kPrev, 1, kTime, 7, kTime + 9, kStart, kEn, kTranscribe})}) {
    Transcription t = make(9000, p);
    EXPECT_EQ(prompt_of(*t.next()), (Ids{kPrev, 1, kStart, kEn, kTranscribe}));
    t.take(answer({kTime, 7, kTime + 9}));
    EXPECT_EQ(prompt_of(*t.next()), want);
  }
}

// Whatever a model says, there is an end.
TEST(Transcription, ATimeThatIsTheWindowsBeginDoesNotRepeatIt) {
  Transcription t = make(6000, {{"language", "en"}});
  int windows = 0;
  for (; t.next() && windows < 100; ++windows) t.take(answer({kTime, 7, kTime, kTime, kEnd}));
  EXPECT_EQ(windows, 2);
}

TEST(Transcription, WhatIsRefused) {
  const auto param = [](int64_t frames, const json& params, proto::GenerationOptions options = {}) {
    try {
      Transcription t = make(frames, params, std::move(options));
      t.next();
    } catch (const InputError& error) {
      return error.param();
    }
    return std::string("none");
  };
  EXPECT_EQ(param(3000, {{"language", "klingon"}}), "language");
  EXPECT_EQ(param(3000, {{"task", "sing"}}), "task");
  EXPECT_EQ(param(4000, {{"return_timestamps", false}}), "return_timestamps");
  EXPECT_EQ(param(3000, {{"logprob_threshold", -1.0}}), "logprob_threshold");
  EXPECT_EQ(param(3000, {{"return_token_timestamps", true}}), "return_token_timestamps");
  EXPECT_EQ(param(3000, {{"prompt_condition_type", "all-segments"}}), "prompt_condition_type");
  EXPECT_EQ(param(3000, {{"prompt_condition_type", "some"}}), "prompt_condition_type");
  proto::GenerationOptions options;
  options.set_max_new_tokens(61);
  EXPECT_EQ(param(3000, {{"language", "en"}}, options), "max_new_tokens");
  options.set_max_new_tokens(60);
  EXPECT_EQ(param(3000, {{"language", "en"}}, options), "none");
  options.set_n(2);
  EXPECT_EQ(param(3000, {{"language", "en"}}, options), "n");
  auto one = settings();
  one->multilingual = false;
  EXPECT_THROW(make(3000, {{"language", "en"}}, {}, one), InputError);
  auto silent = settings();
  silent->not_built = {{"no_speech_threshold", "0.6"}};
  EXPECT_THROW(make(3000, {{"language", "en"}}, {}, silent), InputError);
  EXPECT_NO_THROW(make(3000, {{"language", "en"}, {"no_speech_threshold", nullptr}}, {}, silent));
}

}  // namespace
}  // namespace tandem
