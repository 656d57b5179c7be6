// The best entry of each row of a product, without storing whole rows. A task's logits lie in its
// thread's memory, which fits the second-level cache. Only the results of their blocks stay
// (kernels/row_math.h).
#pragma once

#include "kernels/cpu/linear_plan.h"

namespace tandem::cpu {

class LinearBest {
 public:
  // soft_cap: of the logits; 0: none.
  LinearBest(Context& ctx, int64_t rows, int64_t ids, float soft_cap);

  // Makes tasks smaller if their logits exceed a thread's memory.
  void cut(TaskPlan& plan);
  // Where a task's products go.
  Destination destination(const TaskPlan::Range& task, int thread) const;
  // Caps and reads the task's products, which are complete.
  void take(const TaskPlan::Range& task, int thread) const;
  // Writes the results of all rows. REQUIRES: all tasks are done.
  void tell(const ops::LinearBestArgs& args) const;

 private:
  Context& ctx_;
  int64_t rows_, ids_, panels_;
  float soft_cap_;
  int64_t panels_per_task_ = 1, rows_per_block_ = 0, stride_ = 0;
  Tensor logits_;        // [threads * rows_per_block, stride]
  Tensor peaks_, sums_;  // [rows, panels]: of blocks
  Tensor best_;          // [rows, tasks] i32: the id of the best of a task's logits
};

inline Destination destination(const ops::LinearArgs& args, const LinearBest* best,
                               const TaskPlan::Range& task, int thread) {
  if (best != nullptr) return best->destination(task, thread);
  return {args.out.data<float>(), args.out.row_stride()};
}

// linear(), with products to `best` instead of `out`, unless `best` is nullptr.
void linear(Context& ctx, const ops::LinearArgs& args, LinearBest* best);
void linear_i4(Context& ctx, const ops::LinearArgs& args, LinearBest* best);

}  // namespace tandem::cpu
