#include "runtime/execution/drafts/draft_confidence.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr double kTrialsBefore = 8, kMostTrialsOfBelief = 1024;

}  // namespace

// Half of those that nothing speaks for: so that they are tried, when trying is cheap.
DraftConfidence::DraftConfidence() {
  for (int i = 0; i < kBuckets; ++i)
    counts_[static_cast<size_t>(i)] = {kTrialsBefore * (0.5 + 0.5 * i / (kBuckets - 1)),
                                       kTrialsBefore};
}

int DraftConfidence::bucket_of(double belief) {
  return belief > 0 ? std::min(kBuckets - 1, static_cast<int>(belief * kBuckets)) : 0;
}

double DraftConfidence::likelihood(int bucket) const {
  const Counts& c = counts_[static_cast<size_t>(bucket)];
  return c.hits / c.trials;
}

// What is long ago counts less.
void DraftConfidence::record(int bucket, bool right) {
  Counts& c = counts_[static_cast<size_t>(bucket)];
  c.hits += right ? 1 : 0;
  c.trials += 1;
  if (c.trials < kMostTrialsOfBelief) return;
  c.hits /= 2;
  c.trials /= 2;
}

}  // namespace tandem
