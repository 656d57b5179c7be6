#include "runtime/scheduling/drafts/hit_rates.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr double kMostTrials = 4096;  // then the older half is forgotten

}  // namespace

// Before anything is known: the longer, the better, but nothing to rely on.
HitRates::HitRates() {
  for (int i = 0; i < kMostLength; ++i)
    counts_[static_cast<size_t>(i)] = {8 * (i + 1) / (i + 7.0), 8};
}

double HitRates::of(int length) const {
  const Counts& c = counts_[static_cast<size_t>(std::clamp(length, 1, kMostLength)) - 1];
  return c.hits / c.trials;
}

void HitRates::record(int length, bool hit) {
  Counts& c = counts_[static_cast<size_t>(std::clamp(length, 1, kMostLength)) - 1];
  c.trials += 1;
  c.hits += hit;
  if (c.trials < kMostTrials) return;
  c.trials /= 2;
  c.hits /= 2;
}

}  // namespace tandem
