// What is learnt of the times that steps take.
#include "runtime/scheduling/drafts/step_times.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem {
namespace {

// A machine whose steps take so long, give or take `noise`; one in `disturbed_one_in` takes twenty
// times as long.
struct Machine {
  double once, sequence, draft;
  double noise = 0.05;
  int disturbed_one_in = 0;

  double seconds(int sequences, int drafts, std::mt19937& random) const {
    std::uniform_real_distribution<double> part(1 - noise, 1 + noise);
    const double usual = once + sequence * sequences + draft * drafts;
    const bool disturbed =
        disturbed_one_in > 0 && random() % static_cast<unsigned>(disturbed_one_in) == 0;
    return usual * part(random) * (disturbed ? 20 : 1);
  }
  // What a draft costs, in tokens of a step.
  double cost(int sequences) const { return draft * sequences / (once + sequence * sequences); }
};

// Steps of up to so many sequences and drafts.
void run(StepTimes& times, const Machine& machine, int steps, int most_sequences, int most_drafts,
         std::mt19937& random) {
  for (int i = 0; i < steps; ++i) {
    const int sequences = 1 + static_cast<int>(random() % static_cast<unsigned>(most_sequences));
    const int drafts = static_cast<int>(random() % static_cast<unsigned>(most_drafts + 1));
    times.add_step(sequences, drafts, machine.seconds(sequences, drafts, random));
    times.check_integrity();
  }
}

TEST(StepTimes, BeforeAnyStep) {
  const StepTimes times(2.5);
  EXPECT_DOUBLE_EQ(times.draft_cost(1), 1 / 3.5);
  EXPECT_DOUBLE_EQ(times.draft_cost(8), 8 / 10.5);
  EXPECT_DOUBLE_EQ(times.draft_cost(0), times.draft_cost(1));
  EXPECT_DOUBLE_EQ(times.pause_cost(1), 0.05);
  times.check_integrity();
}

// Steps alike say nothing of what drafts cost: that stays believed.
TEST(StepTimes, StepsAlikeTellNoParts) {
  std::mt19937 random(7);
  StepTimes times(2.5);
  run(times, {1, 1, 100, /*noise=*/0}, 100, 1, 0, random);
  EXPECT_NEAR(times.draft_cost(1), 1 / 3.5, 1e-6);
  EXPECT_NEAR(times.draft_cost(8), 8 / 10.5, 1e-6);
}

TEST(StepTimes, AreLearnt) {
  std::mt19937 random(7);
  for (const double scale : {1e-5, 1e-3, 10.0})
    for (const Machine machine : {Machine{10, 0.1, 0.05},
                                  {1, 1, 1},
                                  {1, 1, 0.2},
                                  {0.2, 1, 0.8},
                                  {5, 0.5, 0.5, 0.1, /*disturbed_one_in=*/10}}) {
      const Machine real{machine.once * scale, machine.sequence * scale, machine.draft * scale,
                         machine.noise, machine.disturbed_one_in};
      StepTimes times;
      run(times, real, 300, 8, 16, random);
      const double off = machine.disturbed_one_in > 0 ? 0.5 : 0.25;
      for (const int sequences : {1, 4, 8})
        EXPECT_NEAR(times.draft_cost(sequences), real.cost(sequences),
                    off * real.cost(sequences) + 0.05)
            << scale << " " << machine.once << " " << machine.draft << " " << sequences;
    }
}

// One sequence with now and then some drafts, which is what a lonely request looks like.
TEST(StepTimes, OfOneSequence) {
  std::mt19937 random(7);
  StepTimes times;
  for (int i = 0; i < 40; ++i) run(times, {3, 0.1, 0.02}, 5, 1, i % 4 == 0 ? 6 : 0, random);
  EXPECT_LT(times.draft_cost(1), 0.05);
  // The machine changes: drafts cost as much as steps.
  for (int i = 0; i < 80; ++i) run(times, {0.1, 1, 1}, 5, 1, i % 4 == 0 ? 6 : 0, random);
  EXPECT_GT(times.draft_cost(1), 0.5);
}

TEST(StepTimes, NothingIsLearntOfUnknownTimes) {
  StepTimes times;
  for (const double seconds : {0.0, 1e-300, 1e300}) times.add_step(3, 1, seconds);
  EXPECT_DOUBLE_EQ(times.draft_cost(1), StepTimes().draft_cost(1));
  times.add_pause(1);
  EXPECT_DOUBLE_EQ(times.pause_cost(1), 0.05);
}

TEST(StepTimes, Pauses) {
  std::mt19937 random(7);
  StepTimes times;
  const Machine machine{0.001, 0, 0.0001, 0};
  run(times, machine, 20, 1, 4, random);
  EXPECT_NEAR(times.pause_cost(1), 0.05, 0.02);
  for (int i = 0; i < 50; ++i) times.add_pause(0.0003);
  EXPECT_NEAR(times.pause_cost(1), 0.3, 0.03);
  for (int i = 0; i < 100; ++i) times.add_pause(-0.001);  // clocks of two processes, perhaps
  EXPECT_LT(times.pause_cost(1), 0.01);
  times.check_integrity();
}

// A pause that was long by accident neither counts for much nor for ever.
TEST(StepTimes, AnAccidentIsForgotten) {
  std::mt19937 random(7);
  StepTimes times;
  const Machine machine{0.001, 0, 0.0001, 0};
  run(times, machine, 20, 1, 4, random);
  times.add_pause(3600);
  EXPECT_LT(times.pause_cost(1), 0.1);
  for (int i = 0; i < 30; ++i) times.add_pause(3600);
  const double at_most = times.pause_cost(1);
  run(times, machine, 3000, 1, 4, random);
  EXPECT_LT(times.pause_cost(1), 0.05 + 0.01 * at_most);
}

}  // namespace
}  // namespace tandem
