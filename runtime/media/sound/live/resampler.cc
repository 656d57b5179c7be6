#include "runtime/media/sound/live/resampler.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "base/check.h"

namespace tandem {
namespace {

constexpr int64_t kReach = 24;    // samples of the lower rate, on each side
constexpr double kCutoff = 0.93;  // of the lower rate's half: there it is 6 dB down

}  // namespace

Resampler::Resampler(int from, int to) {
  TANDEM_CHECK(from > 0 && to > 0 && from <= 768000 && to <= 768000);
  const int divisor = std::gcd(from, to);
  up_ = to / divisor;
  down_ = from / divisor;
  const int64_t slower = std::max(up_, down_);
  width_ = kReach * slower;
  reach_ = width_ / up_ + 1;
  for (int64_t i = -width_; i <= width_; ++i) {
    const double x = kCutoff * static_cast<double>(i) / static_cast<double>(slower);
    const double sinc = i == 0 ? 1 : std::sin(std::numbers::pi * x) / (std::numbers::pi * x);
    const double hann = 0.5 + 0.5 * std::cos(std::numbers::pi * static_cast<double>(i) /
                                             static_cast<double>(width_));
    filter_.push_back(static_cast<float>(kCutoff * sinc * hann * static_cast<double>(up_) /
                                         static_cast<double>(slower)));
  }
  begin();
}

// Behind silence.
void Resampler::begin() {
  input_.assign(static_cast<size_t>(reach_), 0);
  first_ = -reach_;
  next_ = 0;
}

// The next sample; false: the input does not reach so far.
bool Resampler::next(std::vector<float>& out) {
  const int64_t place = next_ * down_;  // in 1 / up_ samples of the input
  const int64_t centre = place / up_;
  if (centre + reach_ >= first_ + std::ssize(input_)) return false;
  double sum = 0;
  for (int64_t n = centre - reach_ + 1; n <= centre + reach_; ++n) {
    const int64_t distance = place - n * up_;
    if (distance < -width_ || distance > width_) continue;
    sum += static_cast<double>(input_[static_cast<size_t>(n - first_)]) *
           static_cast<double>(filter_[static_cast<size_t>(distance + width_)]);
  }
  out.push_back(static_cast<float>(sum));
  ++next_;
  return true;
}

void Resampler::add(std::span<const float> samples, std::vector<float>& out) {
  input_.insert(input_.end(), samples.begin(), samples.end());
  while (next(out)) {
  }
  const int64_t needed = next_ * down_ / up_ - reach_;
  if (needed <= first_) return;
  input_.erase(input_.begin(), input_.begin() + (needed - first_));
  first_ = needed;
}

void Resampler::finish(std::vector<float>& out) {
  const int64_t end = first_ + std::ssize(input_);
  input_.insert(input_.end(), static_cast<size_t>(reach_ + 1), 0);
  while (next_ * down_ < end * up_) TANDEM_CHECK(next(out));
  begin();
}

}  // namespace tandem
