// The CPU's linear layers over packed weights (kernels/cpu/packed_weight.h).
//
// Tasks are blocks of rows times groups of panels. With few rows a task streams its panels from
// memory once; with many, a block of rows of x stays in the second cache while slices of panels
// pass by.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/packed_weight.h"

namespace tandem::cpu {
namespace {

// How the work is cut. None of it changes a bit of the result.
struct Plan {
  int64_t rows_per_block, row_blocks;
  int64_t panels_per_task, panel_tasks;
  int64_t steps_per_block;
  bool cut;  // whether K is
};

Plan make_plan(int64_t rows, int64_t panels, int64_t steps, const GemmKernel& gemm, int threads) {
  const GemmBlocking& cut = gemm.blocking;
  Plan p{};
  p.row_blocks = ceil_div(rows, cut.rows_per_block);
  p.rows_per_block = round_up(ceil_div(rows, p.row_blocks), cut.tile_rows);
  p.row_blocks = ceil_div(rows, p.rows_per_block);
  // Enough tasks to even out the threads, but none so small that claiming it shows.
  const int64_t wanted = ceil_div(int64_t{threads} * 8, p.row_blocks);
  const int64_t panel_bytes = steps * kStepBytes * ceil_div(p.rows_per_block, cut.tile_rows);
  const int64_t least = ceil_div(kTaskBytes, panel_bytes + 1);
  p.panels_per_task = std::clamp<int64_t>(panels / wanted, least, std::max<int64_t>(least, panels));
  p.panel_tasks = ceil_div(panels, p.panels_per_task);
  p.steps_per_block = rows <= cut.tile_rows ? steps : cut.words_per_block / gemm.step_words;
  p.cut = p.steps_per_block < steps;
  return p;
}

// x as the kernel of the compute type takes it: rows of steps of one word or two.
struct Operand {
  const uint32_t* x;
  int64_t ldx;
  const float* scales;  // of the rows, in int8
};

// One op.
class Product {
 public:
  Product(const ops::LinearArgs& args, const Operand& x, float* tiles, const Plan& plan,
          const GemmKernel& gemm)
      : args_(args),
        x_(x),
        tiles_(tiles),
        plan_(plan),
        gemm_(gemm),
        steps_(steps_of(args.weight->in_features(), args.weight->dtype())),
        panel_bytes_(panel_bytes(args.weight->in_features(), args.weight->dtype())),
        panels_(ceil_div(args.weight->out_features(), kPanelColumns)) {}

  // A scratch tile per thread: for the panel that N does not fill, and for sums that are taken up
  // again (rows of `out` that lie a power of two apart would drive each other out of the caches).
  static int64_t tile_floats(const Plan& plan) { return plan.rows_per_block * kPanelColumns; }

  void operator()(int64_t task, int thread) const {
    const int64_t row = task % plan_.row_blocks * plan_.rows_per_block;
    const int64_t rows = std::min(plan_.rows_per_block, args_.x.dim(0) - row);
    const int64_t first = task / plan_.row_blocks * plan_.panels_per_task;
    const int64_t last = std::min(panels_, first + plan_.panels_per_task);
    float* tile = tiles_ + thread * tile_floats(plan_);
    for (int64_t panel = first; panel < last; ++panel)
      run_panel(panel, row, rows, panel + 1 < last, tile);
  }

 private:
  void run_panel(int64_t panel, int64_t row, int64_t rows, bool more, float* tile) const {
    const int64_t column = panel * kPanelColumns;
    const int64_t columns = std::min<int64_t>(kPanelColumns, args_.weight->out_features() - column);
    const bool direct = columns == kPanelColumns && !plan_.cut;
    float* out = args_.out.row<float>(row) + column;
    const std::byte* w =
        static_cast<const std::byte*>(args_.weight->data().raw()) + panel * panel_bytes_;
    GemmBlock b{};
    b.ldx = x_.ldx;
    b.rows = rows;
    b.columns = static_cast<int>(columns);
    b.c = direct ? out : tile;
    b.ldc = direct ? args_.out.row_stride() : kPanelColumns;
    b.out = direct ? nullptr : out;
    b.ldo = args_.out.row_stride();
    b.bias = args_.bias.empty() ? nullptr : args_.bias.data<float>() + column;
    b.activation = args_.activation;
    if (x_.scales != nullptr) {
      b.row_scales = x_.scales + row;
      b.column_scales = reinterpret_cast<const float*>(w + steps_ * kStepBytes);
      b.column_offsets = b.column_scales + kPanelColumns;
    }
    int64_t step = 0;
    do {  // once for K = 0
      const int64_t end = std::min(steps_, step + plan_.steps_per_block);
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
  const Operand x_;
  float* tiles_;
  const Plan& plan_;
  const GemmKernel& gemm_;
  int64_t steps_, panel_bytes_, panels_;
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
  const IsaKernels& isa = isa_kernels();
  const PackedWeight& w = *args.weight;
  if (w.dtype() == DType::kI4) return linear_i4(ctx, args);
  const int64_t rows = args.x.dim(0), k = w.in_features(), steps = steps_of(k, w.dtype());
  const GemmKernel& kernel = kernel_of(isa, w.dtype());
  const Plan plan =
      make_plan(rows, ceil_div(w.out_features(), kPanelColumns), steps, kernel, ctx.threads());
  const bool f32 = w.dtype() == DType::kF32, i8 = w.dtype() == DType::kI8;
  // Workspace: the tiles, then x converted, then the scales of its rows.
  const int64_t tile_floats = Product::tile_floats(plan) * ctx.threads();
  // Rows a power of two apart would share a few sets of the first cache.
  constexpr int64_t kLine = 64 / sizeof(uint32_t);
  const int64_t row_words = (ceil_div(steps * kernel.step_words, kLine) | 1) * kLine;
  const int64_t words = f32 ? 0 : rows * row_words, scales = i8 ? rows : 0;
  float* tiles = static_cast<float*>(
      ctx.workspace(static_cast<size_t>(tile_floats + words + scales) * sizeof(float)));
  Operand x{static_cast<const uint32_t*>(args.x.raw()), args.x.row_stride(), nullptr};
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
  run_tasks(ctx, plan.row_blocks * plan.panel_tasks, product);
}

}  // namespace tandem::cpu
