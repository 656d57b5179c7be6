// The CPU's head of greedy rows: logits of a task's features go no further than the second cache.
#include "kernels/cpu/linear_best.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "kernels/cpu/isa/isa.h"
#include "kernels/order_key.h"
#include "kernels/row_math.h"

namespace tandem::cpu {

static_assert(kSumBlock == kPanelColumns, "a panel's logits are a block of a row's sum");

namespace {

constexpr int64_t kLogitsBytes = 256 << 10;  // of a task

std::span<const float> part_of(const Tensor& t, int64_t row, int64_t first, int64_t last) {
  return {t.row<float>(row) + first, static_cast<size_t>(last - first)};
}

}  // namespace

LinearBest::LinearBest(Context& ctx, int64_t rows, int64_t ids, float soft_cap)
    : ctx_(ctx),
      rows_(rows),
      ids_(ids),
      panels_(ceil_div(ids, kPanelColumns)),
      soft_cap_(soft_cap) {}

void LinearBest::cut(TaskPlan& plan) {
  const int64_t panel_bytes = plan.rows_per_block * kStepBytes;
  plan.panels_per_task =
      std::min(plan.panels_per_task, std::max<int64_t>(1, kLogitsBytes / panel_bytes));
  plan.panel_tasks = ceil_div(panels_, plan.panels_per_task);
  panels_per_task_ = plan.panels_per_task;
  rows_per_block_ = plan.rows_per_block;
  constexpr int64_t kLineFloats = 16;  // rows a power of two apart would share a few sets
  stride_ = panels_per_task_ * kPanelColumns + kLineFloats;
  logits_ = ctx_.make({ctx_.threads() * rows_per_block_, stride_});
  peaks_ = ctx_.make({rows_, panels_});
  sums_ = ctx_.make({rows_, panels_});
  best_ = ctx_.make({rows_, plan.panel_tasks}, DType::kI32);
}

Destination LinearBest::destination(const TaskPlan::Range& task, int thread) const {
  return {logits_.row<float>(thread * rows_per_block_), stride_, task.row, task.first};
}

void LinearBest::take(const TaskPlan::Range& task, int thread) const {
  const Destination logits = destination(task, thread);
  const int64_t first = task.first * kPanelColumns;
  const int64_t count = std::min(ids_, task.last * kPanelColumns) - first;
  for (int64_t row = task.row; row < task.row + task.rows; ++row) {
    float* own = logits.at(row, task.first);
    if (soft_cap_ > 0) isa_kernels().soft_cap(soft_cap_, own, count);
    const std::span<const float> values(own, static_cast<size_t>(count));
    sum_blocks(values, peaks_.row<float>(row) + task.first, sums_.row<float>(row) + task.first);
    const Peak peak = peak_of_blocks(part_of(peaks_, row, task.first, task.last));
    best_.row<int32_t>(row)[task.first / panels_per_task_] =
        static_cast<int32_t>(first) + index_of(peak, values);
  }
}

void LinearBest::tell(const ops::LinearBestArgs& args) const {
  for_rows(ctx_, rows_, panels_ * 16, [&](int64_t row) {
    const std::span<const float> peaks = part_of(peaks_, row, 0, panels_);
    const Peak peak = peak_of_blocks(peaks);
    const int64_t panel = static_cast<int64_t>(peak.block / kSumBlock);
    const int32_t best = args.first_id + best_.row<int32_t>(row)[panel / panels_per_task_];
    args.log_sums.data<float>()[row] =
        static_cast<float>(log_sum_of_blocks(peaks, part_of(sums_, row, 0, panels_), peak));
    *args.ids.row<int32_t>(row) = best;
    *args.values.row<float>(row) = peaks[static_cast<size_t>(panel)];
    if (!args.best.empty()) args.best.data<int32_t>()[row] = best;
  });
}

void linear_best(Context& ctx, const ops::LinearBestArgs& args) {
  const int64_t rows = args.rows.dim(0);
  const Tensor x = ctx.make({rows, args.x.dim(1)});
  gather_rows(ctx, {args.x, args.rows, x});
  LinearBest best(ctx, rows, args.weight->out_features(), args.soft_cap);
  linear(ctx, {args.weight, x, args.bias, Activation::kNone, {}}, &best);
  best.tell(args);
}

namespace {

// Of one row, -inf if all are; NaN if one is.
float log_of_sums(const Tensor& log_sums, int64_t row) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double peak = -kInfinity, sum = 0;
  for (int64_t part = 0; part < log_sums.dim(0); ++part)
    peak = std::max(peak, double{log_sums.row<float>(part)[row]});
  for (int64_t part = 0; part < log_sums.dim(0); ++part)
    if (const double x = log_sums.row<float>(part)[row]; x != -kInfinity) sum += std::exp(x - peak);
  return static_cast<float>(peak + std::log(sum));
}

}  // namespace

void join_best(Context& ctx, const ops::JoinBestArgs& args) {
  const int64_t parts = args.part_ids.dim(0);
  for_rows(ctx, args.part_ids.dim(1), parts * 12, [&](int64_t row) {
    int32_t id = args.part_ids.row<int32_t>(0)[row];
    float value = args.part_values.row<float>(0)[row];
    for (int64_t part = 1; part < parts; ++part) {
      const int32_t its_id = args.part_ids.row<int32_t>(part)[row];
      const float its_value = args.part_values.row<float>(part)[row];
      const int32_t key = order_key(value), its_key = order_key(its_value);
      if (its_key < key || (its_key == key && its_id > id)) continue;
      id = its_id;
      value = its_value;
    }
    args.log_sums.data<float>()[row] = log_of_sums(args.part_log_sums, row);
    *args.ids.row<int32_t>(row) = id;
    *args.values.row<float>(row) = value;
    if (!args.best.empty()) args.best.data<int32_t>()[row] = id;
  });
}

}  // namespace tandem::cpu
