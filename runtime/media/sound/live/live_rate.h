// Live sound of any rate at one whose windows of 32 ms have whole samples.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/media/sound/live/resampler.h"

namespace tandem {

class LiveRate {
 public:
  // Rates that live sound may have: the ratios of others need large filters.
  static constexpr int kLeast = 8000, kMost = 48000, kMultiple = 25;
  static bool takes(int rate) { return rate >= kLeast && rate <= kMost && rate % kMultiple == 0; }

  explicit LiveRate(int rate);
  // Of what comes out: the same rate if it is a multiple of 125, else 16000.
  int rate() const { return rate_; }
  bool changes() const { return resampler_.has_value(); }
  // Both only if it changes(). Those that the samples so far decide; and the rest, as if silence
  // followed.
  std::vector<int16_t> add(std::span<const int16_t> samples);
  std::vector<int16_t> finish();

 private:
  int rate_;
  std::optional<Resampler> resampler_;
};

}  // namespace tandem
