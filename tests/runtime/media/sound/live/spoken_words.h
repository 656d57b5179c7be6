// Live sound that a test can read: 1000 samples a second, each the number of the word that is said.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "runtime/media/sound/live/live_transcriber.h"

namespace tandem::test {

inline constexpr int kSpokenRate = 1000;

// Any sound at all is speech.
class SpokenMeter final : public VoiceMeter {
 public:
  void add(std::span<const int16_t> samples, std::vector<float>& out) override {
    for (const int16_t sample : samples) {
      any_ = any_ || sample != 0;
      if (++count_ < kWindowMs) continue;
      out.push_back(any_ ? 0.9f : 0.05f);
      any_ = false;
      count_ = 0;
    }
  }

 private:
  bool any_ = false;
  int count_ = 0;
};

struct SpokenWord {
  int number = 0;
  int64_t begin = 0, end = 0;  // milliseconds
  std::string text() const { return "w" + std::to_string(number); }
};

struct Speech {
  std::vector<int16_t> samples;
  std::vector<SpokenWord> words;

  void silence(int64_t ms) { samples.resize(samples.size() + static_cast<size_t>(ms)); }
  void word(int64_t ms) {
    const auto begin = std::ssize(samples);
    words.push_back({static_cast<int>(words.size()) + 1, begin, begin + ms});
    samples.resize(samples.size() + static_cast<size_t>(ms), static_cast<int16_t>(words.size()));
  }
  std::string text() const {
    std::string out;
    for (const SpokenWord& word : words) out += (out.empty() ? "" : " ") + word.text();
    return out;
  }
};

inline int64_t any(std::mt19937& random, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

inline Speech make_speech(std::mt19937& random, int turns, int most_words) {
  Speech out;
  for (int turn = 0; turn < turns; ++turn) {
    out.silence(any(random, 700, 3000));
    for (int64_t words = any(random, 1, most_words); words > 0; --words) {
      out.word(any(random, 120, 600));
      out.silence(any(random, 1, 120));
    }
  }
  out.silence(2000);
  return out;
}

// What a model would say of the window: words that are whole, in segments of a few. One that ends
// with the window is heard wrongly; `slips`: so is each other one with that probability.
inline LiveHypothesis hear_window(const LiveWindow& window, std::mt19937& random, double slips,
                                  bool times) {
  LiveHypothesis out;
  const std::vector<int16_t>& s = window.samples;
  size_t in_segment = 0;
  for (size_t at = 0; at < s.size();) {
    size_t end = at;
    while (end < s.size() && s[end] == s[at]) ++end;
    const bool cut = end == s.size();
    const bool slip = std::bernoulli_distribution(slips)(random);
    if (s[at] != 0 && (!cut || end - at > 200)) {
      const std::string text =
          cut || slip ? " x" + std::to_string(any(random, 0, 3)) : " w" + std::to_string(s[at]);
      if (out.segments.empty() || (times && in_segment >= 6)) {
        out.segments.push_back({"", static_cast<double>(at) / kSpokenRate, 0});
        in_segment = 0;
      }
      out.segments.back().text += text + (s[at] % 7 == 0 ? "," : "");
      out.segments.back().end = static_cast<double>(end) / kSpokenRate;
      ++in_segment;
    }
    at = end;
  }
  return out;
}

}  // namespace tandem::test
