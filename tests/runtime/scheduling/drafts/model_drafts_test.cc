// What a draft model is asked for.
#include "runtime/scheduling/drafts/model_drafts.h"

#include <gtest/gtest.h>

#include "runtime/scheduling/drafts/step_times.h"

namespace tandem {
namespace {

constexpr int kMost = 8;

// What a draft is believed to cost among so many sequences.
double row(int sequences, double rows_of_a_step = kRowsOfAStep) {
  return StepTimes(rows_of_a_step).draft_cost(sequences);
}

// One sequence, 1, of which so many in ten steps were right as asked.
ModelDrafts with_record(int right_in_ten, int rounds = 20) {
  ModelDrafts drafts;
  drafts.set_cost(0.05);
  EXPECT_TRUE(drafts.prepares(row(1)));
  drafts.add(1);
  for (int i = 0; i < 10 * rounds; ++i) drafts.record(1, 1, 1, i % 10 < right_in_ten);
  return drafts;
}

TEST(ModelDrafts, TheSurerTheMore) {
  EXPECT_EQ(with_record(10).plan(1, row(1), kMost).count, kMost);
  const int likely = with_record(8).plan(1, row(1), kMost).count;
  EXPECT_GT(likely, 1);
  EXPECT_LT(likely, kMost);
  EXPECT_EQ(with_record(2).plan(1, row(1), kMost).count, 0);
  EXPECT_EQ(with_record(10).plan(1, row(1), 3).count, 3);
  EXPECT_EQ(with_record(10).plan(2, row(1), kMost).count, 0) << "nobody knows it";
}

TEST(ModelDrafts, FewerAmongMany) {
  const ModelDrafts drafts = with_record(8);
  EXPECT_GT(drafts.plan(1, row(1), kMost).count, drafts.plan(1, row(4), kMost).count);
  EXPECT_EQ(drafts.plan(1, row(32), kMost).count, 0);
  EXPECT_LT(drafts.least_likelihood(row(1)), drafts.least_likelihood(row(8)));
}

// Where a step's rows cost little, more sequences get drafts.
TEST(ModelDrafts, CheapRows) {
  EXPECT_EQ(rows_of_a_step(DType::kI8, CpuIsa::kAvx512Vnni), kRowsOfAStep);
  EXPECT_EQ(rows_of_a_step(DType::kF32, CpuIsa::kAmx), kRowsOfAStep);
  const double tiles = rows_of_a_step(DType::kI8, CpuIsa::kAmx);
  ModelDrafts drafts;
  drafts.set_cost(0.05);
  EXPECT_TRUE(drafts.prepares(row(1)));
  drafts.add(1);
  for (int i = 0; i < 200; ++i) drafts.record(1, 1, 1, i % 10 < 8);
  EXPECT_LT(drafts.least_likelihood(row(8, tiles)), drafts.least_likelihood(row(8)));
  EXPECT_GT(drafts.plan(1, row(8, tiles), kMost).count, drafts.plan(1, row(8), kMost).count);
  EXPECT_EQ(drafts.plan(1, row(32, tiles), kMost).count, 0);
}

TEST(ModelDrafts, ACostlyModelSaysLess) {
  ModelDrafts drafts = with_record(8);
  const auto cheap = drafts.plan(1, row(1), kMost);
  drafts.set_cost(0.3);
  const auto dear = drafts.plan(1, row(1), kMost);
  EXPECT_LT(dear.count, cheap.count);
  EXPECT_LT(dear.value, cheap.value);
  drafts.set_cost(0.8);
  EXPECT_EQ(drafts.plan(1, row(1), kMost).count, 0);
  EXPECT_FALSE(drafts.prepares(row(1))) << "it can never pay";
}

// It costs its step even if it says nothing.
TEST(ModelDrafts, SilenceCounts) {
  ModelDrafts drafts;
  drafts.set_cost(0.2);
  EXPECT_TRUE(drafts.prepares(row(1)));
  drafts.add(1);
  EXPECT_GT(drafts.plan(1, row(1), kMost).count, 0);
  for (int i = 0; i < 100; ++i) drafts.record(1, 4, 0, 0);
  EXPECT_EQ(drafts.plan(1, row(1), kMost).count, 0);
}

TEST(ModelDrafts, TriesAgainNowAndThen) {
  ModelDrafts drafts = with_record(1, 100);
  int prepared = 0;
  for (int i = 0; i < 160; ++i) {
    if (!drafts.prepares(row(1))) continue;
    ++prepared;
    drafts.add(100 + i);
    EXPECT_GT(drafts.plan(100 + i, row(1), kMost).count, 0) << "it is given a chance";
    for (int k = 0; k < 40; ++k) drafts.record(100 + i, 1, 1, 0);
    EXPECT_EQ(drafts.plan(100 + i, row(1), kMost).count, 0);
  }
  EXPECT_EQ(prepared, 10);
}

TEST(ModelDrafts, WhoCannotIsNotAskedAgain) {
  ModelDrafts drafts = with_record(10);
  drafts.cannot(1);
  EXPECT_EQ(drafts.plan(1, row(1), kMost).count, 0);
  EXPECT_EQ(drafts.size(), 0);
}

}  // namespace
}  // namespace tandem
