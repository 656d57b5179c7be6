#include "runtime/media/sound/voice/voice_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/support/media/voice_weights.h"

namespace tandem::voice_filter_test {
namespace {

constexpr int kRate = VoiceNetwork::kRate;

class VoiceFilterTest : public ::testing::Test {
 protected:
  static std::shared_ptr<const VoiceWeights> weights() {
    static const test::TempDir folder;
    static const auto weights =
        VoiceWeights::load(write_voice_file(folder, testing::random_voice_tensors(5)));
    return weights;
  }
  // Loud and quiet parts.
  static std::vector<float> sound(unsigned seed, int64_t count) {
    std::mt19937 random(seed);
    std::normal_distribution<float> value(0, 1);
    std::vector<float> out;
    while (std::ssize(out) < count) {
      const auto length = std::uniform_int_distribution<int>(100, 40000)(random);
      const float loudness = std::uniform_real_distribution<float>(0, 1)(random);
      for (int i = 0; i < length; ++i) out.push_back(loudness * loudness * value(random));
    }
    out.resize(static_cast<size_t>(count));
    return out;
  }
  // Options by which random weights find speech and silence: around the middle of what they say.
  static VoiceOptions options(const std::vector<float>& samples) {
    std::vector<float> all;
    VoiceNetwork(weights()).add(
        std::span(samples).first(samples.size() / VoiceNetwork::kWindow * VoiceNetwork::kWindow),
        all);
    std::nth_element(all.begin(), all.begin() + std::ssize(all) / 2, all.end());
    VoiceOptions out;
    out.threshold = all[all.size() / 2];
    out.neg_threshold = out.threshold;
    out.min_silence_ms = 100;
    out.pad_ms = 50;
    return out;
  }
};

// What goes out is what the spans hold, however the sound came in.
TEST_F(VoiceFilterTest, GivesTheSamplesOfItsSpans) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  size_t found = 0;
  for (unsigned round = 0; round < 12; ++round) {
    const std::vector<float> samples =
        sound(seed + round, std::uniform_int_distribution<int>(1000, 400000)(random));
    VoiceOptions chosen = options(samples);
    if (round % 3 == 1) chosen.max_speech_s = 1;
    if (round % 4 == 2) chosen.min_speech_ms = 300;
    std::vector<SpeechSpan> first;
    for (int way = 0; way < 2; ++way) {
      std::vector<float> given;
      VoiceFilter filter(weights(), chosen, [&](std::span<const float> part) {
        given.insert(given.end(), part.begin(), part.end());
      });
      for (size_t at = 0; at < samples.size();) {
        const auto length =
            std::uniform_int_distribution<size_t>(1, way == 0 ? 9000 : 200000)(random);
        const size_t count = std::min(length, samples.size() - at);
        filter.add(std::span(samples).subspan(at, count));
        at += count;
      }
      const std::vector<SpeechSpan> spans = filter.finish();
      if (way == 0) first = spans;
      EXPECT_EQ(spans, first);
      std::vector<float> want;
      int64_t behind = 0;
      for (const SpeechSpan& span : spans) {
        EXPECT_LE(behind, span.begin);
        EXPECT_LT(span.begin, span.end);
        behind = span.end;
        ASSERT_LE(behind, std::ssize(samples));
        want.insert(want.end(), samples.begin() + span.begin, samples.begin() + span.end);
      }
      EXPECT_EQ(given, want);
    }
    found += first.size();
  }
  EXPECT_GT(found, 12u);
}

// Neither long speech nor long silence is kept.
TEST_F(VoiceFilterTest, KeepsLittle) {
  for (const double threshold : {0.0, 1.1}) {
    VoiceOptions chosen;
    chosen.threshold = threshold;
    size_t given = 0;
    VoiceFilter filter(weights(), chosen,
                       [&](std::span<const float> part) { given += part.size(); });
    const std::vector<float> second = sound(2, kRate);
    for (int i = 0; i < 60; ++i) {
      filter.add(second);
      EXPECT_LE(filter.kept(), static_cast<size_t>(kRate)) << threshold;
    }
    filter.finish();
    EXPECT_EQ(given, threshold > 1 ? 0u : static_cast<size_t>(60 * kRate));
  }
}

TEST(SpeechClock, TimesAreThoseOfTheSound) {
  // Speech from 1 s to 3 s, and from 10 s to 11 s.
  const SpeechClock clock({{kRate, 3 * kRate}, {10 * kRate, 11 * kRate}}, kRate);
  EXPECT_DOUBLE_EQ(clock.begin(0), 1);
  EXPECT_DOUBLE_EQ(clock.end(2), 3);     // the end of the first part
  EXPECT_DOUBLE_EQ(clock.begin(2), 10);  // the beginning of the second one
  EXPECT_DOUBLE_EQ(clock.end(2.5), 10.5);
  EXPECT_DOUBLE_EQ(clock.end(4), 12);              // a model may say more than there is
  const auto [begin, end] = clock.word(1.5, 2.1);  // its middle is in the first
  EXPECT_DOUBLE_EQ(begin, 2.5);
  EXPECT_DOUBLE_EQ(end, 3.1);
  const SpeechClock none({}, kRate);
  EXPECT_DOUBLE_EQ(none.begin(7), 7);
}

}  // namespace
}  // namespace tandem::voice_filter_test
