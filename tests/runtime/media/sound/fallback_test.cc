// Which answers are good enough, and what is asked for when they are not.
#include <gtest/gtest.h>

#include "base/error.h"
#include "models/family.h"
#include "runtime/media/sound/transcription.h"
#include "runtime/protocol/json/speech_params_reader.h"
#include "tests/support/files/files.h"
#include "tests/support/media/speech_settings.h"

namespace tandem::fallback_test {
namespace {

using nlohmann::json;
using testing::whisper_settings;
using Ids = std::vector<int32_t>;

constexpr int32_t kSot = 501, kTimeZero = 607, kEot = 500, kNoSpeech = 605;

Transcription transcription(int windows, json params, const proto::GenerationOptions& options = {},
                            const std::shared_ptr<SpeechSettings>& settings = whisper_settings()) {
  static const auto tokenizer = load_tokenizer(test::golden("whisper-tiny-rand"));
  params["language"] = "en";
  params["return_timestamps"] = true;
  SpeechInput input{30.0 * windows, {}};
  const int64_t frames = 3000 * windows;
  input.pieces.push_back(
      {LogMel{2, frames, input.seconds, std::vector<float>(static_cast<size_t>(2 * frames))},
       input.seconds});
  return Transcription(settings, std::move(input), read_speech_params(params), options, *tokenizer);
}

proto::RequestOutput said(const Ids& ids, double avg_logprob) {
  proto::RequestOutput out;
  auto& answer = *out.add_outputs();
  answer.mutable_token_ids()->Assign(ids.begin(), ids.end());
  answer.set_cumulative_logprob(avg_logprob * static_cast<double>(ids.size()));
  return out;
}

const Ids kText = {kTimeZero, 7, 8, kTimeZero + 1500, kEot};

// Answers what is asked for, a window and what belongs to it; returns its request.
Transcription::Request answer(Transcription& t, double avg_logprob, double no_speech = 0,
                              const Ids& ids = kText) {
  std::vector<Transcription::Request> requests = t.next();
  EXPECT_FALSE(requests.empty());
  // In any order.
  for (size_t i = requests.size(); i-- > 0;)
    t.take(requests[i].number,
           i > 0 ? said({kNoSpeech}, std::log(no_speech)) : said(ids, avg_logprob));
  return requests.empty() ? Transcription::Request() : std::move(requests[0]);
}

// zlib's level and format are Python's: len(data) / len(zlib.compress(data)).
TEST(Fallback, CompressionRatio) {
  EXPECT_NEAR(WindowAnswer::compression_of(Ids{1, 2, 3, 4}, 51865), 8.0 / 16, 1e-12);
  EXPECT_NEAR(WindowAnswer::compression_of(Ids(40, 1000), 51865), 80.0 / 13, 1e-12);
  EXPECT_NEAR(WindowAnswer::compression_of(Ids(40, 1000), 65536), 120.0 / 14, 1e-12);
  Ids mixed;
  for (int i = 0; i < 200; ++i) mixed.push_back(i * i % 50000);
  EXPECT_NEAR(WindowAnswer::compression_of(mixed, 51865), 400.0 / 411, 1e-12);
  EXPECT_EQ(WindowAnswer::compression_of(Ids{}, 51865), 0);
}

TEST(Fallback, TemperaturesOneAfterTheOther) {
  proto::GenerationOptions options;
  options.set_num_beams(4);
  options.set_seed(17);
  Transcription t =
      transcription(2, {{"temperature", {0.0, 0.4, 0.8}}, {"logprob_threshold", -1}}, options);
  auto request = answer(t, -2);
  EXPECT_FALSE(request.options.do_sample());
  EXPECT_EQ(request.options.num_beams(), 4);
  EXPECT_TRUE(request.options.processed_logprobs());
  request = answer(t, -1.5);
  EXPECT_TRUE(request.options.do_sample());
  EXPECT_EQ(request.options.temperature(), 0.4);
  EXPECT_EQ(request.options.num_beams(), 1);
  const int64_t seed = request.options.seed();
  EXPECT_TRUE(t.segments().empty());
  request = answer(t, -3);  // the last one counts, good or not
  EXPECT_EQ(request.options.temperature(), 0.8);
  EXPECT_NE(request.options.seed(), seed);
  ASSERT_EQ(t.segments().size(), 1U);
  EXPECT_EQ(t.segments()[0].temperature(), 0.8);
  EXPECT_NEAR(t.segments()[0].avg_logprob(), -3, 1e-9);
  request = answer(t, -0.5);
  EXPECT_FALSE(request.options.do_sample());
  EXPECT_EQ(request.options.num_beams(), 1);  // as HuggingFace's, once something was sampled
  EXPECT_TRUE(t.done());
  // The same request has the same seeds.
  Transcription again =
      transcription(2, {{"temperature", {0.0, 0.4, 0.8}}, {"logprob_threshold", -1}}, options);
  answer(again, -2);
  EXPECT_EQ(answer(again, -2).options.seed(), seed);
}

TEST(Fallback, RepetitionIsWhatCompresses) {
  Transcription t =
      transcription(1, {{"temperature", {0, 0.5}}, {"compression_ratio_threshold", 2.4}});
  Ids repeats(40, 7);
  answer(t, 0, 0, repeats);
  EXPECT_FALSE(t.done());
  answer(t, 0);
  ASSERT_TRUE(t.done());
  EXPECT_LT(t.segments()[0].compression_ratio(), 2.4);
}

TEST(Fallback, SilenceIsLeftOut) {
  const json params = {
      {"temperature", {0, 0.5}}, {"logprob_threshold", -1}, {"no_speech_threshold", 0.6}};
  Transcription t = transcription(4, params);
  std::vector<Transcription::Request> requests = t.next();
  ASSERT_EQ(requests.size(), 2U);
  const auto& probe = requests[1];
  EXPECT_EQ(probe.prompt.decoder().token_ids().ids_size(), 1);
  EXPECT_EQ(probe.prompt.decoder().token_ids().ids(0), kSot);
  ASSERT_EQ(probe.options.allowed_token_ids().ids_size(), 1);
  EXPECT_EQ(probe.options.allowed_token_ids().ids(0), kNoSpeech);
  t.take(requests[0].number, said(kText, -2));
  EXPECT_TRUE(t.next().empty());
  t.take(requests[1].number, said({kNoSpeech}, std::log(0.7)));
  EXPECT_TRUE(t.segments().empty());
  EXPECT_EQ(t.seconds_done(), 30);
  answer(t, -0.5, 0.9);  // sure of its text
  EXPECT_EQ(t.segments().size(), 1U);
  EXPECT_NEAR(t.segments()[0].no_speech_prob(), 0.9, 1e-9);
  answer(t, -2, 0.1);  // unsure, but somebody speaks
  EXPECT_EQ(t.segments().size(), 1U);
  EXPECT_EQ(t.next().size(), 1U);  // whether somebody speaks is known
}

TEST(Fallback, HotWindowsDoNotGoIntoThePrompt) {
  Transcription t = transcription(
      3,
      {{"temperature", {0, 0.5}}, {"logprob_threshold", -1}, {"condition_on_prev_tokens", true}});
  answer(t, 0);
  EXPECT_GT(answer(t, -2).prompt.decoder().token_ids().ids_size(), 3);
  EXPECT_GT(answer(t, 0).prompt.decoder().token_ids().ids_size(), 3);  // the same window
  EXPECT_EQ(answer(t, 0).prompt.decoder().token_ids().ids_size(), 3);
  EXPECT_TRUE(t.done());
}

TEST(Fallback, TheModelsThresholds) {
  auto settings = whisper_settings();
  settings->logprob_threshold = -1;
  const json params = {{"temperature", {0, 0.5}}};
  Transcription t = transcription(1, params, {}, settings);
  answer(t, -2);
  EXPECT_FALSE(t.done());
  json off = params;
  off["logprob_threshold"] = nullptr;
  Transcription without = transcription(1, off, {}, settings);
  answer(without, -2);
  EXPECT_TRUE(without.done());
}

}  // namespace
}  // namespace tandem::fallback_test
