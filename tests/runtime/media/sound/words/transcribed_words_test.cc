// Times of words through transcriptions, with answers and weights made up.
#include <gtest/gtest.h>

#include <cmath>

#include "models/family.h"
#include "runtime/media/sound/transcription.h"
#include "runtime/protocol/json/speech_params_reader.h"
#include "tests/support/files/files.h"
#include "tests/support/media/speech_settings.h"

namespace tandem {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

constexpr int32_t kFirstTime = 607, kEndOfText = 500;
const Ids kHello = {424, 310, 332, 11};  // " Hello,"

const Tokenizer& words_tokenizer() {
  static const auto loaded = load_tokenizer(test::golden("whisper-tiny-rand"));
  return *loaded;
}

// Sounds of so many frames, of which `seconds` are sound; several: chunks.
Transcription transcription(const std::vector<double>& seconds, const json& params,
                            double shared = 0) {
  auto settings = testing::whisper_settings();
  settings->alignment_heads = {{1, 0}};
  SpeechInput input;
  for (size_t i = 0; i < seconds.size(); ++i) {
    LogMel mel{2, std::max<int64_t>(3000, std::llround(seconds[i] * 100)), seconds[i], {1, 1}};
    input.pieces.push_back(
        {std::move(mel), seconds[i], i > 0 ? shared : 0, i + 1 < seconds.size() ? shared : 0});
    input.seconds += seconds[i];
  }
  return Transcription(settings, std::move(input), read_speech_params(params), {},
                       words_tokenizer());
}

proto::RequestOutput tokens(const Ids& ids) {
  proto::RequestOutput out;
  out.add_outputs()->mutable_token_ids()->Assign(ids.begin(), ids.end());
  for (size_t i = 0; i < ids.size(); ++i)
    out.mutable_outputs(0)->add_logprobs()->add_top()->set_logprob(i % 2 ? std::log(0.5f) : 0);
  return out;
}

// Each row hears its own share of the positions, one after the other.
proto::RequestOutput weights(int rows, int positions) {
  proto::RequestOutput out;
  for (int r = 0; r < rows; ++r)
    for (int p = 0; p < positions; ++p)
      out.mutable_embedding()->add_values(p * rows / positions == r ? 0.9f : 0.1f);
  return out;
}

// Answers the only request, and aligns its tokens. Returns the alignment's.
Transcription::Request speak(Transcription& t, const Ids& ids) {
  auto all = t.next();
  EXPECT_EQ(all.size(), 1U);
  t.take(all.at(0).number, tokens(ids));
  all = t.next();
  EXPECT_EQ(all.size(), 1U);
  const auto& wanted = all.at(0).prompt.pooling().alignment();
  t.take(all.at(0).number, weights(static_cast<int>(ids.size()) - 1, wanted.positions()));
  return all.at(0);
}

Ids with_times(Ids ids, int32_t from, int32_t to) {
  ids.insert(ids.begin(), kFirstTime + from);
  ids.push_back(kFirstTime + to);
  return ids;
}

std::vector<double> ends_of(const proto::SpeechSegment& segment) {
  return {segment.token_timestamps().begin(), segment.token_timestamps().end()};
}

TEST(TranscribedWords, AWindowIsReadOnceMore) {
  Transcription t = transcription({30}, {{"language", "en"}, {"return_timestamps", "word"}});
  Ids said = with_times(kHello, 0, 1250);
  said.push_back(kEndOfText);
  const auto request = speak(t, said);
  const auto& ids = request.prompt.decoder().token_ids().ids();
  Ids want = {501, 502, 602};
  want.insert(want.end(), said.begin(), said.end() - 1);
  EXPECT_EQ(Ids(ids.begin(), ids.end()), want);
  EXPECT_EQ(request.prompt.pooling().kind(), proto::Pooling::ALIGNMENT);
  const proto::Alignment& wanted = request.prompt.pooling().alignment();
  EXPECT_EQ(wanted.first_token(), 3);
  EXPECT_EQ(wanted.positions(), 1500);
  ASSERT_EQ(wanted.heads_size(), 1);
  EXPECT_EQ(wanted.heads(0).layer(), 1);
  ASSERT_TRUE(t.done());
  ASSERT_EQ(t.segments().size(), 1U);
  const proto::SpeechSegment& segment = t.segments()[0];
  EXPECT_EQ(ends_of(segment), (std::vector<double>{0, 5, 10, 15, 20, 25}));
  ASSERT_EQ(segment.words_size(), 1);
  EXPECT_EQ(segment.words(0).word(), " Hello,");
  EXPECT_DOUBLE_EQ(segment.words(0).start(), 0);
  EXPECT_DOUBLE_EQ(segment.words(0).end(), 20);
  EXPECT_NEAR(segment.words(0).probability(), 0.75, 1e-6);
}

// Without an end the last token was not read: it ends with the one before it. The silence behind a
// short sound is not looked at.
TEST(TranscribedWords, OfAShortSound) {
  Transcription t = transcription({0.503}, {{"language", "en"}, {"return_token_timestamps", true}});
  const auto request = speak(t, with_times(kHello, 0, 20));
  EXPECT_EQ(request.prompt.pooling().alignment().positions(), 25);  // 51 frames
  ASSERT_TRUE(t.done());
  EXPECT_EQ(ends_of(t.segments().at(0)), (std::vector<double>{0, 0.1, 0.2, 0.3, 0.4, 0.4}));
}

// The next window goes on with the times of the one before it, and its own begin.
TEST(TranscribedWords, WindowAfterWindow) {
  Transcription t = transcription({40}, {{"language", "en"}, {"return_token_timestamps", true}});
  Ids said = with_times(kHello, 0, 1000);
  said.push_back(kFirstTime + 1000);
  said.push_back(kEndOfText);
  speak(t, said);
  ASSERT_FALSE(t.done());
  const auto second = speak(t, with_times(kHello, 0, 400));
  EXPECT_EQ(second.prompt.pooling().alignment().positions(), 1000);
  ASSERT_TRUE(t.done());
  ASSERT_EQ(t.segments().size(), 2U);
  EXPECT_EQ(ends_of(t.segments()[1]), (std::vector<double>{20, 24, 28, 32, 36, 36}));
  // (Its first token is a time, which ends at 20.)
  EXPECT_DOUBLE_EQ(t.segments()[1].words(0).start(), 20);
  EXPECT_DOUBLE_EQ(t.segments()[1].words(0).end(), 36);
}

// A window that says nothing, or one token, is not read again; nor one behind the sound.
TEST(TranscribedWords, NothingToAlign) {
  for (const Ids& ids : {Ids{}, Ids{kEndOfText}, Ids{kFirstTime}}) {
    Transcription t = transcription({30}, {{"language", "en"}, {"return_token_timestamps", true}});
    auto all = t.next();
    t.take(all.at(0).number, tokens(ids));
    EXPECT_TRUE(t.done()) << ids.size();
  }
  Transcription t = transcription({1}, {{"language", "en"}, {"return_token_timestamps", true}});
  Ids first = with_times(kHello, 0, 100);
  first.push_back(kFirstTime + 100);
  speak(t, first);
  ASSERT_FALSE(t.done());  // what fills the window up is heard as well
  auto all = t.next();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_FALSE(all[0].prompt.has_pooling());
  t.take(all[0].number, tokens(with_times(kHello, 0, 100)));
  ASSERT_TRUE(t.done());
  EXPECT_EQ(ends_of(t.segments().at(1)), std::vector<double>(6, 2.0));
}

TEST(TranscribedWords, WrongWeightsAreAnError) {
  Transcription t = transcription({30}, {{"language", "en"}, {"return_token_timestamps", true}});
  auto all = t.next();
  t.take(all.at(0).number, tokens(kHello));
  all = t.next();
  EXPECT_THROW(t.take(all.at(0).number, weights(2, 1500)), InputError);
}

// What neighbours share is there once; its first half has the left one's times.
TEST(TranscribedWords, Chunks) {
  Transcription t = transcription({20, 20},
                                  {{"language", "en"},
                                   {"return_token_timestamps", true},
                                   {"chunk_length_s", 20},
                                   {"stride_length_s", 4}},
                                  4);
  auto all = t.next();
  ASSERT_EQ(all.size(), 2U);
  for (const auto& request : all) t.take(request.number, tokens(with_times(kHello, 0, 1000)));
  all = t.next();
  ASSERT_EQ(all.size(), 2U);
  for (const auto& request : all)
    t.take(request.number, weights(5, request.prompt.pooling().alignment().positions()));
  ASSERT_TRUE(t.done());
  int number = 0;
  double last = 0;
  for (const proto::SpeechSegment& segment : t.segments()) {
    EXPECT_EQ(segment.token_timestamps_size(), segment.token_ids_size());
    for (const proto::SpeechWord& word : segment.words()) {
      ++number;
      EXPECT_GE(word.end(), word.start());
      last = std::max(last, word.end());
    }
  }
  EXPECT_EQ(number, 1);
  EXPECT_GT(last, 20);
}

}  // namespace
}  // namespace tandem
