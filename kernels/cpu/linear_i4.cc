// The CPU's linear layers over weights in int4. With few rows a task streams its panels from memory
// once, four bits at a time; with many, slices of panels are expanded to int8 beside the cores and
// multiplied as those of an int8 weight. The bits are the same.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/linear_best.h"
#include "kernels/cpu/linear_plan.h"

namespace tandem::cpu {
namespace {

// Up to so many the bits are taken apart for each pass of rows.
constexpr int64_t kFewRows = 12;
constexpr int64_t kSliceGroups = 32;  // 64 KB of int8: in the second cache

TaskPlan make_plan_i4(int64_t rows, int64_t panels, int64_t panel_bytes, const GemmBlocking& cut,
                      int threads) {
  const bool few = rows <= kFewRows;
  return {rows,
          few ? rows : cut.rows_per_block,
          few ? 1 : cut.tile_rows,
          panels,
          threads,
          [&](int64_t) { return ceil_div(kTaskBytes, panel_bytes); }};
}

// One op. x: as gemm_i8 takes it or, of few rows, as gemm_i4 does. best: as in linear.cc.
class ProductI4 {
 public:
  ProductI4(const ops::LinearArgs& args, const LinearOperand& x, float* scratch,
            const TaskPlan& plan, const IsaKernels& isa, LinearBest* best)
      : args_(args),
        x_(x),
        best_(best),
        scratch_(scratch),
        plan_(plan),
        isa_(isa),
        rows_(args.x.dim(0)),
        k_(args.weight->in_features()),
        groups_(i4_groups_of(k_)) {}

  // Of a thread: the tile of sums, then a slice of a panel.
  static int64_t tile_floats(const TaskPlan& plan) { return plan.rows_per_block * kPanelColumns; }
  static int64_t slice_words(int64_t k) {
    return std::min(i4_groups_of(k), kSliceGroups) * kI4GroupSteps * kPanelColumns;
  }
  static int64_t scratch_words(const TaskPlan& plan, int64_t k) {
    return tile_floats(plan) + slice_words(k);
  }

  void operator()(int64_t task, int thread) const {
    const int64_t panels = ceil_div(args_.weight->out_features(), kPanelColumns);
    float* tile = scratch_ + thread * scratch_words(plan_, k_);
    const TaskPlan::Range t = plan_.range_of(task, rows_, panels);
    const Destination out = destination(args_, best_, t, thread);
    for (int64_t panel = t.first; panel < t.last; ++panel)
      run_panel(panel, t.row, t.rows, panel + 1 < t.last, tile, out);
    if (best_ != nullptr) best_->take(t, thread);
  }

 private:
  void run_panel(int64_t panel, int64_t row, int64_t rows, bool more, float* tile,
                 const Destination& out) const {
    const bool few = rows_ <= kFewRows, direct = few || groups_ <= kSliceGroups;
    const std::byte* w =
        static_cast<const std::byte*>(args_.weight->data().raw()) + panel * i4_panel_bytes(k_);
    GemmBlock b =
        block_of_panel(args_, x_, out, panel, row, rows, direct, tile, w + groups_ * kI4GroupBytes);
    if (!few) return run_slices(b, row, w, more, tile + tile_floats(plan_));
    b.x = x_.x + row * x_.ldx;
    b.w = w;
    b.steps = groups_;
    b.finish = true;
    isa_.gemm_i4(b);
  }

  void run_slices(GemmBlock& b, int64_t row, const std::byte* w, bool more, float* slice) const {
    const int64_t steps = steps_of(k_, DType::kI8);
    int64_t group = 0;
    do {  // once for K = 0
      const int64_t end = std::min(groups_, group + kSliceGroups);
      const int64_t step = group * kI4GroupSteps;
      isa_.expand_i4(w + group * kI4GroupBytes, end - group, slice);
      b.x = x_.x + row * x_.ldx + step * isa_.gemm_i8.step_words;
      b.w = slice;
      b.steps = std::min(steps, end * kI4GroupSteps) - step;
      b.ends_task = end == groups_ && !more;
      b.accumulate = group > 0;
      b.finish = end == groups_;
      if (!isa_.gemm_i8.run(b)) isa_.gemm_i8.finish(b);
      group = end;
    } while (group < groups_);
  }

  const ops::LinearArgs& args_;
  const LinearOperand x_;
  LinearBest* best_;
  float* scratch_;
  const TaskPlan& plan_;
  const IsaKernels& isa_;
  int64_t rows_, k_, groups_;
};

}  // namespace

void linear_i4(Context& ctx, const ops::LinearArgs& args, LinearBest* best) {
  const IsaKernels& isa = isa_kernels();
  const int64_t rows = args.x.dim(0), k = args.weight->in_features();
  TaskPlan plan = make_plan_i4(rows, ceil_div(args.weight->out_features(), kPanelColumns),
                               i4_panel_bytes(k), isa.gemm_i8.blocking, ctx.threads());
  if (best != nullptr) best->cut(plan);
  const bool few = rows <= kFewRows;
  const int64_t step_words = padded_row_words(steps_of(k, DType::kI8) * isa.gemm_i8.step_words);
  const int64_t group_words = few ? padded_row_words(i4_groups_of(k) * kI4GroupWords) : 0;
  const int64_t scratch = ProductI4::scratch_words(plan, k) * ctx.threads();
  float* all = static_cast<float*>(ctx.workspace(
      static_cast<size_t>(scratch + rows * (step_words + group_words + 2)) * sizeof(float)));
  uint32_t* steps = reinterpret_cast<uint32_t*>(all + scratch);
  uint32_t* groups = steps + rows * step_words;
  float* scales = reinterpret_cast<float*>(groups + rows * group_words);
  auto* offsets = reinterpret_cast<int32_t*>(scales + rows);
  for_rows(ctx, rows, bytes_to_convert(args), [&](int64_t i) {
    if (args.norm != nullptr) norm_row(*args.norm, i);
    scales[i] = isa.to_i8_steps(args.x.row<float>(i), k, steps + i * step_words, offsets + i);
    if (few) isa.to_i4_groups(steps + i * step_words, k, groups + i * group_words);
  });
  const LinearOperand x = few ? LinearOperand{groups, group_words, scales, offsets}
                              : LinearOperand{steps, step_words, scales, offsets};
  const ProductI4 product(args, x, all, plan, isa, best);
  run_tasks(ctx, plan.tasks(), product);
}

}  // namespace tandem::cpu
