#include "runtime/media/sound/mel_scale.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

// Linear to 1 kHz, then logarithmic.
double slaney_mel(double hertz) {
  return hertz < 1000 ? 3 * hertz / 200 : 15 + std::log(hertz / 1000) * 27 / std::log(6.4);
}
double slaney_hertz(double mel) {
  return mel < 15 ? 200 * mel / 3 : 1000 * std::exp((mel - 15) * std::log(6.4) / 27);
}

double kaldi_mel(double hertz) { return 1127 * std::log(1 + hertz / 700); }

// A triangle over corners[0..2]; `at`: the place of each point.
MelFilter triangle(const double* corners, std::span<const double> at) {
  MelFilter out;
  for (size_t k = 0; k < at.size(); ++k) {
    const double up = (at[k] - corners[0]) / (corners[1] - corners[0]),
                 down = (corners[2] - at[k]) / (corners[2] - corners[1]);
    const double height = std::min(up, down);
    if (height <= 0) continue;
    if (out.weights.empty()) out.first = k;
    out.weights.push_back(height);
  }
  return out;
}

}  // namespace

std::vector<MelFilter> slaney_filters(int bins, int points, double highest, int sampling_rate) {
  std::vector<double> corners, at;
  const double last = slaney_mel(highest);
  for (int i = 0; i < bins + 2; ++i) corners.push_back(slaney_hertz(last * i / (bins + 1)));
  const double step = static_cast<double>(sampling_rate / 2) / (points - 1);
  for (int k = 0; k < points; ++k) at.push_back(step * k);
  std::vector<MelFilter> out;
  for (size_t m = 0; m < static_cast<size_t>(bins); ++m) {
    MelFilter& filter = out.emplace_back(triangle(&corners[m], at));
    for (double& weight : filter.weights) weight *= 2 / (corners[m + 2] - corners[m]);
  }
  return out;
}

std::vector<MelFilter> kaldi_filters(int bins, int points, double lowest, int sampling_rate) {
  std::vector<double> corners, at;
  const double first = kaldi_mel(lowest), last = kaldi_mel(sampling_rate / 2);
  for (int i = 0; i < bins + 2; ++i) corners.push_back(first + (last - first) * i / (bins + 1));
  const double step = static_cast<double>(sampling_rate) / (2.0 * (points - 1));
  for (int k = 0; k < points; ++k) at.push_back(kaldi_mel(step * k));
  std::vector<MelFilter> out;
  for (size_t m = 0; m < static_cast<size_t>(bins); ++m) out.push_back(triangle(&corners[m], at));
  return out;
}

}  // namespace tandem
