// Sound of one rate at another, as it comes: for what finds speech, and for live sound of rates
// whose windows have no whole samples. What the model hears otherwise is resampled by the decoder.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

// A polyphase filter of the exact ratio: a sinc under a Hann window. It passes what is below 0.85
// of half the lower rate, and nothing above that half. Used by one thread.
class Resampler {
 public:
  // Samples a second, 1 to 768000.
  Resampler(int from, int to);
  // Appends what the samples so far decide: the last few wait for those behind them.
  void add(std::span<const float> samples, std::vector<float>& out);
  // Appends the rest, as if silence followed: n samples have become n * to / from, rounded up. The
  // next sample is the first one again.
  void finish(std::vector<float>& out);
  // Samples of the input that it keeps.
  size_t kept() const { return input_.size(); }

 private:
  void begin();
  bool next(std::vector<float>& out);

  int64_t up_, down_;          // to / from, in lowest terms
  int64_t reach_;              // of the filter, on both sides, in samples of the input
  std::vector<float> input_;   // from first_ on
  int64_t first_ = 0;          // may be negative: silence before the beginning
  int64_t next_ = 0;           // sample of the output
  std::vector<float> filter_;  // by the distance in 1 / up_ samples of the input, from -width_ on
  int64_t width_;
};

}  // namespace tandem
