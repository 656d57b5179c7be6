// A draft model's beliefs, and what became of them.
#include "runtime/execution/drafts/draft_confidence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/execution/drafts/draft_cost.h"

namespace tandem {
namespace {

TEST(DraftConfidence, IsWhatBecameOfSuchBeliefs) {
  DraftConfidence all;
  const int weak = DraftConfidence::bucket_of(0.03), strong = DraftConfidence::bucket_of(0.97);
  EXPECT_LT(all.likelihood(weak), all.likelihood(strong));
  for (int i = 0; i < 5000; ++i) {
    all.record(weak, i % 10 < 9);
    all.record(strong, i % 2 == 0);
  }
  EXPECT_NEAR(all.likelihood(weak), 0.9, 0.02);
  EXPECT_NEAR(all.likelihood(strong), 0.5, 0.02);
  for (int i = 0; i < 3000; ++i) all.record(weak, false);
  EXPECT_LT(all.likelihood(weak), 0.2) << "what is long ago counts less";
}

TEST(DraftConfidence, TakesAnyBelief) {
  EXPECT_EQ(DraftConfidence::bucket_of(1), DraftConfidence::kBuckets - 1);
  EXPECT_EQ(DraftConfidence::bucket_of(0), 0);
  EXPECT_EQ(DraftConfidence::bucket_of(std::nan("")), 0);
}

TEST(DraftCost, ComparesStepsOfAsManyRows) {
  DraftCost cost;
  EXPECT_EQ(cost.ratio(), 0);
  for (int i = 0; i < 100; ++i) {
    for (int k = 0; k < 4; ++k) cost.add_draft(1, 0.1 * (kRowsOfAStep + 1));
    cost.add_target(5, 1.0 * (kRowsOfAStep + 5));
  }
  EXPECT_NEAR(cost.ratio(), 0.1, 1e-9);
}

}  // namespace
}  // namespace tandem
