// How long a step of the draft model takes, as a share of how long one of the model takes with as
// many rows: measured where both run, the last steps more than those before.
#pragma once

#include <algorithm>

#include "runtime/scheduling/drafts/step_times.h"

namespace tandem {

class DraftCost {
 public:
  // rows_of_a_step of either (step_times.h): they may compute in different types.
  explicit DraftCost(double of_draft = kRowsOfAStep, double of_target = kRowsOfAStep)
      : draft_{of_draft}, target_{of_target} {}

  void add_draft(int rows, double seconds) { draft_.add(rows, seconds); }
  void add_target(int rows, double seconds) { target_.add(rows, seconds); }
  // 0: nothing has been measured.
  double ratio() const {
    if (draft_.work <= 0 || target_.work <= 0 || target_.seconds <= 0) return 0;
    return std::max(1e-6, draft_.seconds / draft_.work / (target_.seconds / target_.work));
  }

 private:
  struct Side {
    double rows_of_a_step, work = 0, seconds = 0;
    void add(int rows, double more) {
      work = work * kMemory + rows_of_a_step + rows;
      seconds = seconds * kMemory + more;
    }
  };
  static constexpr double kMemory = 0.95;
  Side draft_, target_;
};

}  // namespace tandem
