// The cost of steps, by which drafts are weighed for this model on this machine
// (docs/design/scheduling.md §10). It starts from an estimate and learns from completed steps.
#pragma once

#include <array>

#include "kernels/core/context.h"
#include "kernels/core/cpu_features.h"
#include "kernels/core/types.h"

namespace tandem {

// Rows of a step whose computation takes as long as what a step takes however few they are, most of
// all reading the weights.
inline constexpr double kRowsOfAStep = 2.5;

// The same of a GPU: steps of BART-large in bf16 took 0.51 ms with 1 row and 1.90 with 128 on an
// H100, 0.48 and 1.67 on an H200 (docs/gpu.md).
inline constexpr double kRowsOfADeviceStep = 48;

// The same for weights of a type, on a level of CPUs. Tiles compute up to 16 rows in the time of
// one: a step in int8 took 6, 6, 10 and 16 ms with 1, 8, 16 and 32 rows.
inline double rows_of_a_step(DType dtype, CpuIsa isa) {
  const bool tiles = isa == CpuIsa::kAmx && (dtype == DType::kBF16 || dtype == DType::kI8);
  return tiles ? 10 : kRowsOfAStep;
}
inline double rows_of_a_step(const Context& ctx, DType dtype) {
  return ctx.on_cpu() ? rows_of_a_step(dtype, cpu_isa()) : kRowsOfADeviceStep;
}

// How long steps of decoding take, by how many sequences and drafts are in them, and how long
// workers wait for a step that could not be scheduled ahead. Synchronous; the scheduler's thread.
class StepTimes {
 public:
  // rows_of_a_step: what is believed before anything has been seen, and of what has not been
  // (kRowsOfAStep).
  explicit StepTimes(double rows_of_a_step = kRowsOfAStep);

  // A step that decoded so many sequences (at least one), verified so many drafts and did nothing
  // else took the workers so many seconds. Nothing is learnt of what no step takes, 0 say.
  void add_step(int sequences, int drafts, double seconds);
  // From one step to the next, which waited for its answer, so much more time passed than the
  // workers needed.
  void add_pause(double seconds);

  // The cost of a draft in a step of so many sequences, and of a pause for each of them. The unit
  // is tokens: a step yields one for each sequence.
  double draft_cost(int sequences) const;
  double pause_cost(int sequences) const;

  void check_integrity() const;

 private:
  // Seconds of a step: of whatever is in it, of each sequence, of each draft.
  using Parts = std::array<double, 3>;
  static double seconds(const Parts& parts, int sequences, int drafts);
  void fit();

  Parts believed_;  // shares: rows_of_a_step, 1, 1
  Parts parts_{};   // what fits best to what was seen; zeros: nothing was
  // Sums of x x' and of x over the steps seen, with x = (1, sequences, drafts) / seconds. Later
  // steps weigh more.
  std::array<Parts, 3> squares_{};
  Parts sums_{};
  int seen_ = 0;  // up to kSure
  double pause_ = 0;
};

}  // namespace tandem
