// The best of each row of a product whose rows are nowhere whole: a task's logits lie in memory of
// its thread, which is small enough for the second cache, and only what is said of their blocks
// stays (kernels/row_math.h).
#pragma once

#include "kernels/cpu/linear_plan.h"

namespace tandem::cpu {

class LinearBest {
 public:
  LinearBest(Context& ctx, int64_t rows, int64_t ids);

  // Makes tasks smaller where their logits would be too many.
  void cut(TaskPlan& plan);
  // Where a task's products go.
  Destination destination(const TaskPlan::Range& task, int thread) const;
  // They are there.
  void take(const TaskPlan::Range& task, int thread) const;
  // Of all rows, once all tasks are done.
  void tell(const ops::LinearBestArgs& args) const;

 private:
  Context& ctx_;
  int64_t rows_, ids_, panels_;
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

// linear(), its products to `best` rather than to `out`, unless that is nullptr.
void linear(Context& ctx, const ops::LinearArgs& args, LinearBest* best);
void linear_i4(Context& ctx, const ops::LinearArgs& args, LinearBest* best);

}  // namespace tandem::cpu
