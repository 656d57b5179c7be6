#include "runtime/media/sound/live/live_rate.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tandem {
namespace {

constexpr int kOtherwise = 16000;
constexpr int kWholeWindows = 125;  // 32 ms of a multiple of it are whole samples

std::vector<int16_t> to_samples(const std::vector<float>& sound) {
  std::vector<int16_t> out(sound.size());
  std::transform(sound.begin(), sound.end(), out.begin(), [](float x) {
    return static_cast<int16_t>(std::clamp(std::lround(x), long{INT16_MIN}, long{INT16_MAX}));
  });
  return out;
}

}  // namespace

LiveRate::LiveRate(int rate) : rate_(rate) {
  TANDEM_CHECK_GT(rate, 0);
  if (rate % kWholeWindows == 0) return;
  rate_ = kOtherwise;
  resampler_.emplace(rate, kOtherwise);
}

std::vector<int16_t> LiveRate::add(std::span<const int16_t> samples) {
  std::vector<float> out;
  resampler_->add(std::vector<float>(samples.begin(), samples.end()), out);
  return to_samples(out);
}

std::vector<int16_t> LiveRate::finish() {
  std::vector<float> out;
  resampler_->finish(out);
  return to_samples(out);
}

}  // namespace tandem
