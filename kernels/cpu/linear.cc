// The CPU's linear layers over packed weights (kernels/cpu/packed_weight.h).
//
// Tasks are blocks of rows times groups of panels. With few rows a task streams its panels from
// memory once; with many, a block of rows of x stays in the second cache while slices of panels
// pass by.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/linear_plan.h"

namespace tandem::cpu {
namespace {

TaskPlan make_plan(int64_t rows, int64_t panels, int64_t steps, const GemmBlocking& cut,
                   int threads) {
  return {rows, cut.rows_per_block, cut.tile_rows, panels, threads, [&](int64_t rows_per_block) {
            const int64_t panel_bytes =
                steps * kStepBytes * ceil_div(rows_per_block, cut.tile_rows);
            return ceil_div(kTaskBytes, panel_bytes + 1);
          }};
}

// One op.
class Product {
 public:
  Product(const ops::LinearArgs& args, const LinearOperand& x, float* tiles, const TaskPlan& plan,
          const GemmKernel& gemm)
      : args_(args),
        x_(x),
        tiles_(tiles),
        plan_(plan),
        gemm_(gemm),
        rows_(args.x.dim(0)),
        steps_(steps_of(args.weight->in_features(), args.weight->dtype())),
        steps_per_block_(rows_ <= gemm.blocking.tile_rows
                             ? steps_
                             : gemm.blocking.words_per_block / gemm.step_words),
        panel_bytes_(panel_bytes(args.weight->in_features(), args.weight->dtype())),
        panels_(ceil_div(args.weight->out_features(), kPanelColumns)) {}

  // A scratch tile per thread: for the panel that N does not fill, and for sums that are taken up
  // again (rows of `out` that lie a power of two apart would drive each other out of the caches).
  static int64_t tile_floats(const TaskPlan& plan) { return plan.rows_per_block * kPanelColumns; }

  void operator()(int64_t task, int thread) const {
    float* tile = tiles_ + thread * tile_floats(plan_);
    plan_.run_task(task, rows_, panels_, [&](int64_t panel, int64_t row, int64_t rows, bool more) {
      run_panel(panel, row, rows, more, tile);
    });
  }

 private:
  void run_panel(int64_t panel, int64_t row, int64_t rows, bool more, float* tile) const {
    const std::byte* w =
        static_cast<const std::byte*>(args_.weight->data().raw()) + panel * panel_bytes_;
    // Rows of sums that lie far apart in `out` would drive each other out of the first cache before
    // they end.
    const bool direct = steps_per_block_ >= steps_ && rows <= gemm_.blocking.tile_rows;
    GemmBlock b =
        block_of_panel(args_, x_, panel, row, rows, direct, tile, w + steps_ * kStepBytes);
    int64_t step = 0;
    do {  // once for K = 0
      const int64_t end = std::min(steps_, step + steps_per_block_);
      b.x = x_.x + row * x_.ldx + step * gemm_.step_words;
      b.w = w + step * kStepBytes;
      b.steps = end - step;
      b.next = end < steps_ ? w + end * kStepBytes : more ? w + panel_bytes_ : nullptr;
      b.accumulate = step > 0;
      b.finish = end == steps_;
      gemm_.run(b);
      step = end;
    } while (step < steps_);
  }

  const ops::LinearArgs& args_;
  const LinearOperand x_;
  float* tiles_;
  const TaskPlan& plan_;
  const GemmKernel& gemm_;
  int64_t rows_, steps_, steps_per_block_, panel_bytes_, panels_;
};

const GemmKernel& kernel_of(const IsaKernels& isa, DType dtype) {
  switch (dtype) {
    case DType::kBF16: return isa.gemm_bf16;
    case DType::kI8: return isa.gemm_i8;
    default: return isa.gemm_f32;
  }
}

}  // namespace

void linear(Context& ctx, const ops::LinearArgs& args) {
  const PackedWeight& w = *args.weight;
  if (w.dtype() == DType::kI4) return linear_i4(ctx, args);
  const IsaKernels& isa = isa_kernels();
  const int64_t rows = args.x.dim(0), k = w.in_features(), steps = steps_of(k, w.dtype());
  const GemmKernel& kernel = kernel_of(isa, w.dtype());
  const TaskPlan plan = make_plan(rows, ceil_div(w.out_features(), kPanelColumns), steps,
                                  kernel.blocking, ctx.threads());
  const bool f32 = w.dtype() == DType::kF32, i8 = w.dtype() == DType::kI8;
  // Workspace: the tiles, then x converted, then the scales of its rows.
  const int64_t tile_floats = Product::tile_floats(plan) * ctx.threads();
  const int64_t row_words = padded_row_words(steps * kernel.step_words);
  const int64_t words = f32 ? 0 : rows * row_words, scales = i8 ? rows : 0;
  float* tiles = static_cast<float*>(
      ctx.workspace(static_cast<size_t>(tile_floats + words + scales) * sizeof(float)));
  LinearOperand x{static_cast<const uint32_t*>(args.x.raw()), args.x.row_stride(), nullptr};
  if (!f32) {
    uint32_t* converted = reinterpret_cast<uint32_t*>(tiles + tile_floats);
    float* row_scales = tiles + tile_floats + words;
    for_rows(ctx, rows, k * 6, [&](int64_t i) {
      uint32_t* to = converted + i * row_words;
      if (i8) {
        row_scales[i] = isa.to_i8_steps(args.x.row<float>(i), k, to);
      } else {
        isa.to_bf16_steps(args.x.row<float>(i), k, to);
      }
    });
    x = {converted, row_words, i8 ? row_scales : nullptr};
  }
  const Product product(args, x, tiles, plan, kernel);
  run_tasks(ctx, plan.tasks(), product);
}

}  // namespace tandem::cpu
