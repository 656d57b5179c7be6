// Triangular filters over the power of a spectrum, on mel scales: HuggingFace's mel_filter_bank().
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tandem {

struct MelFilter {
  size_t first = 0;  // the point of the first weight
  std::vector<double> weights = {};

  double apply(std::span<const double> power) const {
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) sum += weights[i] * power[first + i];
    return sum;
  }
};

// `bins` filters from 0 to `highest` hertz on Slaney's scale, of equal areas. `points`: of a
// spectrum, from 0 to half the rate.
std::vector<MelFilter> slaney_filters(int bins, int points, double highest, int sampling_rate);
// Kaldi's: from `lowest` hertz to half the rate, triangles on the scale itself, of equal heights.
std::vector<MelFilter> kaldi_filters(int bins, int points, double lowest, int sampling_rate);

}  // namespace tandem
