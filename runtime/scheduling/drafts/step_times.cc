#include "runtime/scheduling/drafts/step_times.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace tandem {
namespace {

constexpr double kMemory = 0.98;           // of steps: about the last fifty count
constexpr double kMemoryOfPauses = 0.9;    // about the last ten
constexpr double kForgottenAStep = 0.002;  // of pauses: else one that seemed long would be the last
constexpr double kWeightOfBelief = 0.02;   // as of steps that are off by a seventh
constexpr int kSure = 8;                   // steps before which no other is taken for disturbed
constexpr double kMostOff = 1.5;           // how far from what was expected a step may be
constexpr double kPauseOfAStep = 0.05;     // as a share, before one has been seen
constexpr double kMostPause = 5;           // times as long as was expected
constexpr double kLeastCost = 0.01, kMostCost = 1;
constexpr double kLeastSeconds = 1e-7, kMostSeconds = 1e5;  // that anybody believes

// x with a x = b, for a symmetric positive definite a.
std::array<double, 3> solve(std::array<std::array<double, 3>, 3> a, std::array<double, 3> b) {
  for (size_t i = 0; i < 3; ++i)
    for (size_t row = i + 1; row < 3; ++row) {
      const double factor = a[row][i] / a[i][i];
      for (size_t j = i; j < 3; ++j) a[row][j] -= factor * a[i][j];
      b[row] -= factor * b[i];
    }
  for (size_t i = 3; i-- > 0;) {
    for (size_t j = i + 1; j < 3; ++j) b[i] -= a[i][j] * b[j];
    b[i] /= a[i][i];
  }
  return b;
}

}  // namespace

StepTimes::StepTimes(double rows_of_a_step) : believed_{rows_of_a_step, 1, 1} {
  TANDEM_CHECK_GT(rows_of_a_step, 0);
}

double StepTimes::seconds(const Parts& parts, int sequences, int drafts) {
  return parts[0] + parts[1] * sequences + parts[2] * drafts;
}

// A machine that does something else makes single steps many times as long: what is far off counts
// as less far.
void StepTimes::add_step(int sequences, int drafts, double seconds_taken) {
  TANDEM_CHECK(sequences > 0 && drafts >= 0 && std::isfinite(seconds_taken));
  if (seconds_taken < kLeastSeconds || seconds_taken > kMostSeconds) return;
  if (seen_ >= kSure) {
    const double expected = seconds(parts_, sequences, drafts);
    seconds_taken = std::clamp(seconds_taken, expected / kMostOff, expected * kMostOff);
  }
  const Parts x{1 / seconds_taken, sequences / seconds_taken, drafts / seconds_taken};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) squares_[i][j] = squares_[i][j] * kMemory + x[i] * x[j];
    sums_[i] = sums_[i] * kMemory + x[i];
  }
  seen_ = std::min(seen_ + 1, kSure);
  fit();
  const double usual = kPauseOfAStep * seconds(parts_, sequences, 0);
  pause_ += (seen_ == 1 ? 1 : kForgottenAStep) * (usual - pause_);
}

// Least squares of relative errors. What the steps do not tell (they all have one sequence, say)
// stays in the proportions that are believed.
void StepTimes::fit() {
  double with = 0, square = 0;  // the belief's scale: the one that fits best
  Parts product{};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) product[i] += squares_[i][j] * believed_[j];
    with += sums_[i] * believed_[i];
  }
  for (size_t i = 0; i < 3; ++i) square += product[i] * believed_[i];
  const double scale = with / square;
  auto left = squares_;
  Parts right;
  for (size_t i = 0; i < 3; ++i) {
    const double part = scale * believed_[i];
    left[i][i] += kWeightOfBelief / (part * part);
    right[i] = sums_[i] - scale * product[i];
  }
  const Parts off = solve(left, right);
  for (size_t i = 0; i < 3; ++i)
    parts_[i] = std::max(scale * believed_[i] + off[i], 1e-3 * scale * believed_[i]);
}

// One that was long by accident must not count for all: as with steps.
void StepTimes::add_pause(double seconds_passed) {
  TANDEM_CHECK(std::isfinite(seconds_passed));
  const double pause = std::clamp(seconds_passed, 0.0, kMostPause * pause_);
  pause_ += (1 - kMemoryOfPauses) * (pause - pause_);
}

double StepTimes::draft_cost(int sequences) const {
  const int n = std::max(1, sequences);
  const Parts& parts = seen_ == 0 ? believed_ : parts_;
  return std::clamp(parts[2] * n / seconds(parts, n, 0), kLeastCost, kMostCost);
}

double StepTimes::pause_cost(int sequences) const {
  if (seen_ == 0) return kPauseOfAStep;
  return pause_ / seconds(parts_, std::max(1, sequences), 0);
}

void StepTimes::check_integrity() const {
  TANDEM_CHECK(pause_ >= 0 && std::isfinite(pause_));
  for (size_t i = 0; i < 3; ++i) {
    TANDEM_CHECK(std::isfinite(parts_[i]) && std::isfinite(sums_[i]));
    TANDEM_CHECK(seen_ == 0 ? parts_[i] == 0 : parts_[i] > 0);
  }
}

}  // namespace tandem
