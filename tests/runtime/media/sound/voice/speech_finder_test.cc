#include "runtime/media/sound/voice/speech_finder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "tests/support/files/files.h"

namespace tandem::speech_finder_test {
namespace {

using nlohmann::json;

constexpr int64_t kWindow = 512;
constexpr int kRate = 16000;

VoiceOptions options_of(const json& given) {
  VoiceOptions out;
  out.threshold = given.value("threshold", out.threshold);
  if (given.contains("neg_threshold")) out.neg_threshold = given["neg_threshold"].get<double>();
  out.min_speech_ms = given.value("min_speech_duration_ms", out.min_speech_ms);
  out.max_speech_s = given.value("max_speech_duration_s", out.max_speech_s);
  out.min_silence_ms = given.value("min_silence_duration_ms", out.min_silence_ms);
  out.pad_ms = given.value("speech_pad_ms", out.pad_ms);
  return out;
}

// What a finder says after each window has to hold until the end.
struct Promise {
  int64_t from, to;
};

std::vector<SpeechSpan> spans_of(const VoiceOptions& options, const std::string& letters,
                                 int64_t samples) {
  SpeechFinder finder(options, kWindow, kRate);
  std::vector<SpeechSpan> out;
  std::vector<std::pair<size_t, Promise>> promises;  // of the span of that number
  const auto take = [&] {
    for (const SpeechSpan& span : finder.take()) out.push_back(span);
    promises.emplace_back(out.size(), Promise{finder.next_from(), finder.certain_to()});
  };
  for (const char letter : letters) {
    finder.add(static_cast<float>(letter - 'a') / 10);
    take();
  }
  finder.finish(samples);
  take();
  for (const auto& [number, promise] : promises) {
    if (promise.to > promise.from) {
      EXPECT_LT(number, out.size());
      if (number >= out.size()) break;
      EXPECT_EQ(out[number].begin, promise.from);
      EXPECT_GE(out[number].end, promise.to);
    } else if (number < out.size()) {
      EXPECT_GE(out[number].begin, promise.from);
    }
  }
  return out;
}

TEST(SpeechFinder, FindsWhatFasterWhisperFinds) {
  const json all =
      json_from<json>(test::read_file(test::test_root() / "tests/data/speech/spans.json"));
  for (const json& one : all["cases"]) {
    SCOPED_TRACE(one.dump().substr(0, 300));
    std::vector<SpeechSpan> want;
    for (const json& span : one["spans"]) want.push_back({span[0], span[1]});
    EXPECT_EQ(spans_of(options_of(one["options"]), one["probabilities"], one["samples"]), want);
  }
}

TEST(SpeechFinder, SilenceHasNoSpeech) {
  EXPECT_TRUE(spans_of({}, std::string(1000, 'a'), 1000 * kWindow).empty());
  EXPECT_TRUE(spans_of({}, "", 0).empty());
}

// Speech of an hour is given out as it comes.
TEST(SpeechFinder, LongSpeechIsCertainAtOnce) {
  SpeechFinder finder({}, kWindow, kRate);
  for (int i = 0; i < 100000; ++i) {
    finder.add(0.9f);
    EXPECT_GE(finder.certain_to(), i * kWindow);
  }
  for (int i = 0; i < 1000; ++i) finder.add(0);
  EXPECT_EQ(finder.take(), (std::vector<SpeechSpan>{{0, 100000 * kWindow + 6400}}));
  EXPECT_GE(finder.next_from(), 100990 * kWindow - 6400);
}

}  // namespace
}  // namespace tandem::speech_finder_test
