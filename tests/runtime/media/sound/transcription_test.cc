// Transcriptions window by window, with answers made up: prompts, lengths, where windows begin.
#include "runtime/media/sound/transcription.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "models/family.h"
#include "runtime/protocol/json/speech_params_reader.h"
#include "tests/support/files/files.h"
#include "tests/support/media/speech_settings.h"
#include "tests/support/media/transcripts.h"

namespace tandem::transcription_test {
namespace {

using nlohmann::json;
using testing::whisper_settings;
using Ids = std::vector<int32_t>;

constexpr int32_t kStart = 501, kEn = 502, kDe = 503, kTranslate = 601, kTranscribe = 602,
                  kPrev = 604, kNone = 606, kTime = 607, kEnd = 500;

LogMel sound(int64_t frames) {
  LogMel out{2, frames, static_cast<double>(frames) / 100, {}};
  for (int64_t i = 0; i < 2 * frames; ++i) out.values.push_back(static_cast<float>(i + 1));
  return out;
}

const Tokenizer& tokenizer() {
  static const auto loaded = load_tokenizer(test::golden("whisper-tiny-rand"));
  return *loaded;
}

SpeechInput in_one(int64_t frames) {
  SpeechInput out{static_cast<double>(frames) / 100, {}};
  out.pieces.push_back({sound(frames), out.seconds});
  return out;
}

Transcription make(int64_t frames, const json& params, proto::GenerationOptions options = {},
                   const std::shared_ptr<SpeechSettings>& with = whisper_settings()) {
  return Transcription(with, in_one(frames), read_speech_params(params), std::move(options),
                       tokenizer());
}

// The only request of a transcription's next ones.
Transcription::Request only(Transcription& t) {
  std::vector<Transcription::Request> all = t.next();
  EXPECT_EQ(all.size(), 1U);
  return all.empty() ? Transcription::Request() : std::move(all[0]);
}

Ids prompt_of(const Transcription::Request& request) {
  const auto& ids = request.prompt.decoder().token_ids().ids();
  return {ids.begin(), ids.end()};
}

proto::RequestOutput answer(const Ids& ids, double logprob = 0) {
  proto::RequestOutput out;
  out.add_outputs()->mutable_token_ids()->Assign(ids.begin(), ids.end());
  out.mutable_outputs(0)->set_cumulative_logprob(logprob);
  return out;
}

// Asks for the next window, and answers it.
Transcription::Request go(Transcription& t, const Ids& ids, double logprob = 0) {
  Transcription::Request request = only(t);
  t.take(request.number, answer(ids, logprob));
  return request;
}

// Nothing of the sound is heard, which is no error: as a sound without speech.
TEST(Transcription, ClipsBehindTheSoundHaveNoWindows) {
  for (const json& clips : {json{50}, json{10, 20, 50, 60}}) {
    Transcription t = make(1000, {{"language", "en"}, {"clip_timestamps", clips}});
    EXPECT_TRUE(t.next().empty()) << clips;
    EXPECT_TRUE(t.done()) << clips;
    EXPECT_TRUE(t.segments().empty()) << clips;
  }
}

TEST(Transcription, PromptsOfLanguageAndTask) {
  const auto first = [](const json& params) {
    Transcription t = make(3000, params);
    return prompt_of(only(t));
  };
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
  const auto request = go(t, {kDe});
  EXPECT_EQ(prompt_of(request), Ids{kStart});
  EXPECT_EQ(request.options.max_new_tokens(), 1);
  EXPECT_EQ(request.options.allowed_token_ids().ids_size(), 2);
  EXPECT_EQ(t.language(), "<|de|>");
  EXPECT_EQ(prompt_of(only(t)), (Ids{kStart, kDe, kTranslate, kNone}));
  EXPECT_TRUE(t.next().empty());  // it is under way
  EXPECT_FALSE(t.done());
  // Without a task none is put there.
  Transcription plain = make(3000, {});
  go(plain, {kEn});
  EXPECT_EQ(prompt_of(only(plain)), (Ids{kStart, kEn, kNone}));
}

TEST(Transcription, PromptsOfOldFiles) {
  auto old = whisper_settings();
  old->forced_prompt = {{1, std::nullopt}, {2, kTranscribe}};
  Transcription found = make(3000, {}, {}, old);
  EXPECT_EQ(go(found, {kDe}).options.max_new_tokens(), 1);
  EXPECT_EQ(prompt_of(only(found)), (Ids{kStart, kDe, kTranscribe, kNone}));
  old->forced_prompt = {{1, kEn}, {2, kTranscribe}, {3, kNone}};
  Transcription named = make(3000, {{"return_timestamps", true}}, {}, old);
  EXPECT_EQ(prompt_of(only(named)), (Ids{kStart, kEn, kTranscribe}));
  old->forced_prompt = {{1, kEn}, {3, kNone}};
  EXPECT_THROW(make(3000, {}, {}, old), InputError);
}

// A model's default is no wish of the request's.
TEST(Transcription, LongSoundHasTimesWhateverTheModelsDefaultIs) {
  auto off = whisper_settings();
  off->return_timestamps = false;
  EXPECT_TRUE(make(4000, {{"language", "en"}}, {}, off).times());
  EXPECT_FALSE(make(3000, {{"language", "en"}}, {}, off).times());
}

// The second window begins at the last pair; the last one has zeros behind its sound.
TEST(Transcription, WindowsFollowTimes) {
  Transcription t = make(4000, {{"language", "en"}});
  auto request = only(t);
  EXPECT_TRUE(request.options.return_timestamps());  // it is long
  EXPECT_EQ(request.options.max_length(), 64);
  EXPECT_EQ(request.prompt.encoder().frames().num_frames(), 3000);
  EXPECT_EQ(request.prompt.encoder().frames().values(0), 1);
  t.take(request.number, answer({kTime, 7, kTime + 750, kTime + 750, 8, kEnd}, -3));
  EXPECT_DOUBLE_EQ(t.seconds_done(), 15);
  ASSERT_EQ(t.segments().size(), 1U);
  EXPECT_EQ(t.segments()[0].text(), tokenizer().decode({7}, true));
  EXPECT_DOUBLE_EQ(t.segments()[0].avg_logprob(), -0.5);  // the end counts
  request = only(t);
  const auto& frames = request.prompt.encoder().frames();
  EXPECT_EQ(frames.values(0), 2 * 1500 + 1);
  EXPECT_EQ(frames.values(2 * 2500 - 1), 8000);
  EXPECT_EQ(frames.values(2 * 2500), 0);
  EXPECT_EQ(frames.values_size(), 6000);
  t.take(request.number, answer({kTime + 50, 9, kTime + 100, kEnd}));
  EXPECT_TRUE(t.done());
  EXPECT_TRUE(t.next().empty());
  ASSERT_EQ(t.segments().size(), 2U);
  EXPECT_DOUBLE_EQ(t.segments()[0].end(), 15);
  EXPECT_DOUBLE_EQ(t.segments()[1].start(), 15);
  EXPECT_DOUBLE_EQ(t.segments()[1].end(), 17);
  EXPECT_EQ(t.segments()[1].seek(), 1500);
  EXPECT_EQ(testing::answer_of(t, tokenizer()).outputs(0).segments_size(), 2);
}

// Frames that are left out are as the last one.
TEST(Transcription, TrimmedSoundIsTheSame) {
  LogMel mel = sound(30);
  mel.values.resize(2 * 30);
  for (size_t i = 2 * 12; i < mel.values.size(); ++i) mel.values[i] = i % 2 == 0 ? 5.0f : 6.0f;
  LogMel trimmed = mel;
  trim(trimmed);
  EXPECT_EQ(trimmed.values.size(), 2U * 13);
  for (const int64_t begin : {0, 5, 12, 13, 29}) {
    const auto want = window_of(mel, *whisper_settings(), begin);
    const auto got = window_of(trimmed, *whisper_settings(), begin);
    EXPECT_EQ(want.SerializeAsString(), got.SerializeAsString()) << begin;
  }
}

TEST(Transcription, TextBeforeGoesIntoThePrompt) {
  Transcription t = make(9000, {{"language", "en"}, {"condition_on_prev_tokens", true}});
  const auto first = go(t, {kTime, 7, kTime + 750, kTime + 750, kEnd});
  EXPECT_EQ(prompt_of(first), (Ids{kStart, kEn, kTranscribe}));
  Ids many(50, 9);
  many.push_back(kTime + 1400);
  EXPECT_EQ(prompt_of(go(t, many)), (Ids{kPrev, kTime, 7, kTime + 750, kStart, kEn, kTranscribe}));
  const Ids prompt = prompt_of(only(t));
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
    EXPECT_EQ(prompt_of(go(t, {kTime, 7, kTime + 9})), (Ids{kPrev, 1, kStart, kEn, kTranscribe}));
    EXPECT_EQ(prompt_of(only(t)), want);
  }
}

// faster-whisper's: they stand before what was said, in every window.
TEST(Transcription, HotwordsOfEveryWindow) {
  Ids words = tokenizer().encode(" Tandem", false);
  words.insert(words.begin(), kPrev);
  const auto with = [&](const Ids& ids) {
    Ids out = words;
    out.insert(out.end(), ids.begin(), ids.end());
    return out;
  };
  Transcription t = make(9000, {{"language", "en"}, {"hotwords", " Tandem "}});
  EXPECT_EQ(prompt_of(go(t, {kTime, 7, kTime + 9})), with({kStart, kEn, kTranscribe}));
  EXPECT_EQ(prompt_of(only(t)), with({kStart, kEn, kTranscribe}));
  Transcription all = make(9000, {{"language", "en"},
                                  {"hotwords", "Tandem"},
                                  {"prompt_ids", {kPrev, 1}},
                                  {"condition_on_prev_tokens", true}});
  EXPECT_EQ(prompt_of(go(all, {kTime, 7, kTime + 9})), with({1, kStart, kEn, kTranscribe}));
  EXPECT_EQ(prompt_of(only(all)), with({1, kTime, 7, kTime + 9, kStart, kEn, kTranscribe}));
  Transcription none = make(9000, {{"language", "en"}, {"hotwords", " "}});
  EXPECT_EQ(prompt_of(only(none)), (Ids{kStart, kEn, kTranscribe}));
}

// As HuggingFace's get_prompt_ids().
TEST(Transcription, PromptsOfText) {
  Ids want = tokenizer().encode(" Tandem, 2026", false);
  want.insert(want.begin(), kPrev);
  EXPECT_EQ(speech_prompt_ids(" \n\u3000Tandem, 2026\t", tokenizer(), 100), want);
  Ids cut = speech_prompt_ids("Tandem, 2026", tokenizer(), 2);
  EXPECT_EQ(cut, (Ids{kPrev, want[want.size() - 2], want.back()}));
  for (const char* text : {"a <|en|> b", "<|0.00|>", "<|endoftext|>"})
    EXPECT_THROW(speech_prompt_ids(text, tokenizer(), 100), InputError) << text;
  Transcription t = make(3000, {{"language", "en"}, {"prompt", "Tandem, 2026"}});
  const Ids prompt = prompt_of(only(t));
  EXPECT_EQ(Ids(prompt.begin(), prompt.begin() + std::ssize(want)), want);
}

// Whatever a model says, there is an end.
TEST(Transcription, OddAnswersEnd) {
  for (const Ids& odd : {Ids{kTime, 7, kTime, kTime, kEnd}, Ids{}, Ids{kEnd}, Ids{kEnd, kEnd},
                         Ids{kStart, kPrev, kNone, kEnd}, Ids{kTime}, Ids{kTime, kTime},
                         Ids(60, kTime + 1500), Ids(60, kEn)}) {
    for (const bool chunked : {false, true}) {
      json params = {{"language", "en"}, {"temperature", {0.0, 0.5}}, {"logprob_threshold", -0.5}};
      if (chunked) params["chunk_length_s"] = 30;
      Transcription t = make(6000, params);
      int windows = 0;
      for (; !t.done() && windows < 100; ++windows) go(t, odd, -1e3);
      EXPECT_TRUE(t.done());
      EXPECT_LE(windows, 4);
      EXPECT_DOUBLE_EQ(t.seconds_done(), 60);
      testing::answer_of(t, tokenizer());
    }
  }
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
  EXPECT_EQ(param(3000, {{"logprob_threshold", "low"}}), "logprob_threshold");
  EXPECT_EQ(param(3000, {{"no_speech_threshold", 0.5}}), "no_speech_threshold");
  EXPECT_EQ(param(3000, {{"temperature", json::array()}}), "temperature");
  EXPECT_EQ(param(3000, {{"temperature", -0.5}}), "temperature");
  EXPECT_EQ(param(3000, {{"temperature", json::array({0, "warm"})}}), "temperature");
  EXPECT_EQ(param(3000, {{"prompt", "a"}, {"prompt_ids", {1}}}), "prompt");
  EXPECT_EQ(param(3000, {{"prompt", "\xff"}}), "prompt");
  EXPECT_EQ(param(3000, {{"tempo", 1}}), "tempo");
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
  auto one = whisper_settings();
  one->multilingual = false;
  for (const char* name : {"en", "English", "<|en|>", "en-US"})
    EXPECT_NO_THROW(make(3000, {{"language", name}, {"task", "transcribe"}}, {}, one)) << name;
  for (const char* name : {"de", "german", "klingon", "<|de|>"})
    EXPECT_THROW(make(3000, {{"language", name}}, {}, one), InputError) << name;
  EXPECT_THROW(make(3000, {{"task", "translate"}}, {}, one), InputError);
  // Without heads there are no times of words, whoever asks for them.
  auto words = whisper_settings();
  words->return_token_timestamps = true;
  EXPECT_THROW(make(3000, {{"language", "en"}}, {}, words), InputError);
  EXPECT_NO_THROW(
      make(3000, {{"language", "en"}, {"return_token_timestamps", nullptr}}, {}, words));
  words->alignment_heads = {{1, 0}};
  EXPECT_NO_THROW(make(3000, {{"language", "en"}}, {}, words));
  EXPECT_THROW(make(3000, {{"language", "en"}, {"return_timestamps", false}}, {}, words),
               InputError);
}

}  // namespace
}  // namespace tandem::transcription_test
