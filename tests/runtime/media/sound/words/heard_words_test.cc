// Where silence is skipped, beside faster-whisper's own loop on made-up times of words.
#include "runtime/media/sound/words/heard_words.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "models/family.h"
#include "runtime/media/sound/transcription.h"
#include "runtime/protocol/json/speech_params_reader.h"
#include "tests/support/files/files.h"
#include "tests/support/media/speech_settings.h"

namespace tandem::heard_words_test {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

void compare(const json& c) {
  std::vector<HeardWord> words;
  for (const json& w : c["words"])
    words.push_back({{w[0], std::vector<size_t>(w[1].get<size_t>())}, w[2], w[3], w[4]});
  std::vector<HeardSegment> segments;
  for (const json& s : c["segments"]) segments.push_back({s[0], s[1], s[2]});
  HeardWindow window{c["begin"], c["frames"], 3000, c["sound"]};
  window.last_speech = c["last_speech"];
  place_words(std::move(words), static_cast<double>(window.begin) / 100, window.last_speech,
              segments);
  ASSERT_EQ(segments.size(), c["placed"].size());
  for (size_t i = 0; i < segments.size(); ++i) {
    const json& want = c["placed"][i];
    EXPECT_NEAR(segments[i].start, want[0], 1e-9);
    EXPECT_NEAR(segments[i].end, want[1], 1e-9);
    ASSERT_EQ(segments[i].words.size(), want[2].size());
    for (size_t w = 0; w < want[2].size(); ++w) {
      EXPECT_EQ(segments[i].words[w].group.text, want[2][w][0]);
      EXPECT_NEAR(segments[i].words[w].start, want[2][w][1], 1e-9);
      EXPECT_NEAR(segments[i].words[w].end, want[2][w][2], 1e-9);
    }
  }
  const auto skip = find_silence(segments, window, c["threshold"]);
  EXPECT_EQ(skip ? skip->kept : segments.size(), c["kept"].get<size_t>());
  if (!skip) return;
  if (c["next"].is_number())
    EXPECT_EQ(skip->begin, c["next"].get<int64_t>());
  else
    EXPECT_GE(skip->begin, window.sound);
}

TEST(HeardWords, SilenceAsFasterWhispers) {
  const json all =
      json_from<json>(test::read_file(test::test_root() / "tests/data/speech/windows.json"));
  size_t number = 0, skips = 0;
  for (const json& c : all["silences"]) {
    SCOPED_TRACE("case " + std::to_string(number++));
    compare(c);
    skips += c["kept"] < c["segments"].size() ? 1 : 0;
  }
  EXPECT_GT(skips, 20U);
  EXPECT_LT(skips, number);
}

// Every skip goes forward, or a transcription would never end.
TEST(HeardWords, ASkipGoesForward) {
  HeardSegment odd{20.004, 20.1, 1, {{{" a", {0}}, 20.004, 20.1, 0}}};
  const HeardWindow window{2000, 3000, 3000, 9000};
  const auto skip = find_silence({odd}, window, 0);
  ASSERT_TRUE(skip.has_value());
  EXPECT_GT(skip->begin, window.begin);
  EXPECT_EQ(find_silence({}, window, 0), std::nullopt);
}

// Also in silence that was added behind a short sound.
TEST(HeardWords, ASkipGoesForwardBehindTheSound) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  int skips = 0;
  for (int i = 0; i < 5000; ++i) {
    HeardWindow window{draw(0, 4000), draw(1, 3000), 3000, draw(1, 5000)};
    window.last_speech = draw(0, 40);
    std::vector<HeardSegment> segments;
    double at = static_cast<double>(window.begin) / 100;
    for (int n = draw(1, 3); n > 0; --n) {
      const double start = at + draw(0, 300) / 100.0, end = start + draw(1, 300) / 100.0;
      const double probability = draw(0, 10) / 10.0;
      segments.push_back({start, end, 1, {{{" a", {0}}, start, end, probability}}});
      at = end;
    }
    const auto skip = find_silence(segments, window, draw(0, 20) / 10.0);
    if (!skip) continue;
    ++skips;
    ASSERT_GT(skip->begin, window.begin) << i;
  }
  EXPECT_GT(skips, 100);
}

// A word of a third of a window that the model does not believe in, and what comes of it.
TEST(HeardWords, ATranscriptionSkipsSilence) {
  auto settings = testing::whisper_settings();
  settings->alignment_heads = {{1, 0}};
  settings->median_filter_width = 1;
  const auto tokenizer = load_tokenizer(test::golden("whisper-tiny-rand"));
  SpeechInput input{60, {}};
  input.pieces.push_back({LogMel{2, 6000, 60, std::vector<float>(12000, 1.0F)}, 60});
  Transcription t(settings, std::move(input),
                  read_speech_params({{"language", "en"},
                                      {"return_timestamps", "word"},
                                      {"hallucination_silence_threshold", 1}}),
                  {}, *tokenizer);
  auto request = t.next().at(0);
  const Ids said = {607, 424, 310, 607 + 1500, 500};
  proto::RequestOutput answer;
  answer.add_outputs()->mutable_token_ids()->Assign(said.begin(), said.end());
  for (size_t i = 0; i < said.size(); ++i)
    answer.mutable_outputs(0)->add_logprobs()->add_top()->set_logprob(std::log(0.01F));
  t.take(request.number, answer);
  request = t.next().at(0);
  ASSERT_EQ(request.prompt.pooling().kind(), proto::Pooling::ALIGNMENT);
  proto::RequestOutput weights;
  const std::vector<int> from = {0, 1000, 1200, 1300, 1500};  // positions of rows
  for (size_t r = 0; r + 1 < from.size(); ++r)
    for (int p = 0; p < 1500; ++p)
      weights.mutable_embedding()->add_values(p >= from[r] && p < from[r + 1] ? 0.9F : 0.1F);
  t.take(request.number, weights);
  EXPECT_TRUE(t.segments().empty());
  request = t.next().at(0);  // from the word on
  EXPECT_GT(t.seconds_done(), 1);
  EXPECT_LT(t.seconds_done(), 30);
}

}  // namespace
}  // namespace tandem::heard_words_test
