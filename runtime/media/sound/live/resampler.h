// Sound of one rate at another, as it comes. For what finds speech; what the model hears is
// resampled by the decoder.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

// A polyphase filter: a sinc under a Hann window. Used by one thread.
class Resampler {
 public:
  // Samples a second, 1 to 768000.
  Resampler(int from, int to);
  // Appends what the samples so far decide: the last few wait for those behind them.
  void add(std::span<const float> samples, std::vector<float>& out);
  // Samples of the input that it keeps.
  size_t kept() const { return input_.size(); }

 private:
  int64_t up_, down_;          // to / from, in lowest terms
  int64_t reach_;              // of the filter, on both sides, in samples of the input
  std::vector<float> input_;   // from first_ on
  int64_t first_ = 0;          // may be negative: silence before the beginning
  int64_t next_ = 0;           // sample of the output
  std::vector<float> filter_;  // by the distance in 1 / up_ samples of the input, from -width_ on
  int64_t width_;
};

}  // namespace tandem
