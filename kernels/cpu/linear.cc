// The CPU's linear layers over packed weights (kernels/cpu/packed_weight.h).
//
// Tasks are blocks of rows times groups of panels. With few rows a task streams its panels from
// memory once; with many, a block of rows of x stays in the second cache while slices of panels
// pass by.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/linear_best.h"
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

// What is prefetched beside the blocks of a task, a share of it beside each.
struct Ahead {
  const std::byte* at = nullptr;
  int64_t lines = 0;  // that are left
  int64_t share = 0;

  void take(GemmBlock& b) {
    b.next = lines > 0 ? at : nullptr;
    b.next_lines = std::min(lines, share);
    at += b.next_lines * kLine;
    lines -= b.next_lines;
  }
  static constexpr int64_t kLine = 64;
};

// One op. best: takes the products of each task, or nullptr: they go to `out`.
class Product {
 public:
  Product(const ops::LinearArgs& args, const LinearOperand& x, float* tiles, const TaskPlan& plan,
          const GemmKernel& gemm, int threads, LinearBest* best)
      : args_(args),
        x_(x),
        best_(best),
        tiles_(tiles),
        plan_(plan),
        gemm_(gemm),
        threads_(threads),
        rows_(args.x.dim(0)),
        steps_(steps_of(args.weight->in_features(), args.weight->dtype())),
        slices_(first_cache_bytes() < kLargeFirstCache ? gemm.blocking.small_slices
                                                       : gemm.blocking.slices),
        steps_per_block_(rows_ <= gemm.blocking.tile_rows ? steps_
                                                          : slices_.words / gemm.step_words),
        panel_bytes_(panel_bytes(args.weight->in_features(), args.weight->dtype())),
        panels_(ceil_div(args.weight->out_features(), kPanelColumns)),
        streams_(best == nullptr && passes_caches(args.out)) {}

  // A scratch tile per thread: for the panel that N does not fill, and for sums that are taken up
  // again (rows of `out` that lie a power of two apart would drive each other out of the caches).
  // Two where sums are finished beside the next ones.
  static int64_t tile_floats(const TaskPlan& plan, const GemmKernel& gemm) {
    return (gemm.finish == nullptr ? plan.rows_per_block : 2 * gemm.blocking.rows_per_run) *
           kPanelColumns;
  }

  // The rows pass by some panels, which stay in the second cache, before they go on to the next.
  void operator()(int64_t task, int thread) const {
    const GemmBlocking& cut = gemm_.blocking;
    const TaskPlan::Range t = plan_.range_of(task, rows_, panels_);
    const int64_t groups = ceil_div(t.rows, cut.rows_per_run);
    const int64_t together =
        groups == 1 ? 1
                    : std::max<int64_t>(1, cut.bytes_together / std::max<int64_t>(1, panel_bytes_));
    // (Of one group of rows K may be 0, and is not cut.)
    const int64_t slices =
        groups == 1 ? 1 : std::max<int64_t>(1, ceil_div(steps_, steps_per_block_));
    State state{tiles_ + thread * tile_floats(plan_, gemm_), destination(args_, best_, t, thread)};
    for (int64_t first = t.first; first < t.last; first += together) {
      const int64_t last = std::min(t.last, first + together);
      if (groups > 1)
        state.ahead = ahead_of(task, t, last, together, groups * (last - first) * slices);
      for (int64_t row = 0; row < t.rows; row += cut.rows_per_run)
        for (int64_t panel = first; panel < last; ++panel) {
          const bool more = panel + 1 < t.last || row + cut.rows_per_run < t.rows;
          if (groups == 1) state.ahead = ahead_of(task, t, panel + 1, 1, 1);
          run_panel(panel, t.row + row, std::min(cut.rows_per_run, t.rows - row), more, state);
        }
    }
    if (state.left.rows > 0) gemm_.finish(state.left);
    if (best_ != nullptr) best_->take(t, thread);
  }

 private:
  // Of a task.
  struct State {
    float* tile;
    Destination out;
    int64_t turn = 0;     // which of the two tiles
    GemmBlock left = {};  // to be finished; no rows: nothing is
    Ahead ahead = {};
  };

  const std::byte* panel_at(int64_t panel) const {
    return static_cast<const std::byte*>(args_.weight->data().raw()) + panel * panel_bytes_;
  }

  // `count` panels from `panel` on; behind the task's, those of the one that its thread will
  // probably do next.
  Ahead ahead_of(int64_t task, const TaskPlan::Range& t, int64_t panel, int64_t count,
                 int64_t shares) const {
    int64_t last = t.last;
    if (panel >= t.last) {
      if (task + threads_ >= plan_.tasks()) return {};
      const TaskPlan::Range next = plan_.range_of(task + threads_, rows_, panels_);
      if (next.first == t.first) return {};
      panel = next.first;
      last = next.last;
    }
    const int64_t bytes = std::min(count, last - panel) * panel_bytes_;
    const int64_t lines = ceil_div(bytes, Ahead::kLine);
    return {panel_at(panel), lines, ceil_div(lines, shares)};
  }

  void run_panel(int64_t panel, int64_t row, int64_t rows, bool more, State& state) const {
    const std::byte* w = panel_at(panel);
    // Rows of sums that lie far apart in `out` would drive each other out of the first cache before
    // they end.
    const bool direct =
        gemm_.finish == nullptr && steps_per_block_ >= steps_ && rows <= gemm_.blocking.tile_rows;
    float* tile = state.tile + state.turn * gemm_.blocking.rows_per_run * kPanelColumns;
    GemmBlock b = block_of_panel(args_, x_, state.out, panel, row, rows, direct, tile,
                                 w + steps_ * kStepBytes);
    b.w_once = plan_.row_blocks == 1 && rows == rows_;
    b.stream = streams_;
    b.next_to_first = slices_.to_first;
    bool finished = true;
    int64_t step = 0;
    do {  // once for K = 0
      const int64_t end = std::min(steps_, step + steps_per_block_);
      b.x = x_.x + row * x_.ldx + step * gemm_.step_words;
      b.w = w + step * kStepBytes;
      b.steps = end - step;
      b.accumulate = step > 0;
      b.finish = end == steps_;
      b.ends_task = b.finish && !more;
      b.beside = step == 0 && state.left.rows > 0 ? &state.left : nullptr;
      if (end < steps_ && gemm_.finish == nullptr) {
        b.next = w + end * kStepBytes;
        b.next_lines = b.steps * kStepBytes / Ahead::kLine;
      } else {
        state.ahead.take(b);
      }
      finished = gemm_.run(b);
      step = end;
    } while (step < steps_);
    state.left = {};
    if (finished) return;
    state.left = b;
    state.turn = 1 - state.turn;
  }

  const ops::LinearArgs& args_;
  const LinearOperand x_;
  LinearBest* best_;
  float* tiles_;
  const TaskPlan& plan_;
  const GemmKernel& gemm_;
  int threads_;
  int64_t rows_, steps_;
  GemmSlices slices_;
  int64_t steps_per_block_, panel_bytes_, panels_;
  bool streams_;
};

const GemmKernel& kernel_of(const IsaKernels& isa, DType dtype) {
  switch (dtype) {
    case DType::kBF16: return isa.gemm_bf16;
    case DType::kI8: return isa.gemm_i8;
    default: return isa.gemm_f32;
  }
}

}  // namespace

void linear(Context& ctx, const ops::LinearArgs& args) { linear(ctx, args, nullptr); }

void linear(Context& ctx, const ops::LinearArgs& args, LinearBest* best) {
  const PackedWeight& w = *args.weight;
  if (w.dtype() == DType::kI4) return linear_i4(ctx, args, best);
  const IsaKernels& isa = isa_kernels();
  const int64_t rows = args.x.dim(0), k = w.in_features(), steps = steps_of(k, w.dtype());
  const GemmKernel& kernel = kernel_of(isa, w.dtype());
  TaskPlan plan = make_plan(rows, ceil_div(w.out_features(), kPanelColumns), steps, kernel.blocking,
                            ctx.threads());
  if (best != nullptr) best->cut(plan);
  const bool f32 = w.dtype() == DType::kF32, i8 = w.dtype() == DType::kI8;
  // Workspace: the tiles, then x converted, then the scales and offsets of its rows.
  const int64_t tile_floats = Product::tile_floats(plan, kernel) * ctx.threads();
  const int64_t row_words = padded_row_words(steps * kernel.step_words);
  const int64_t words = f32 ? 0 : rows * row_words, scales = i8 ? 2 * rows : 0;
  float* tiles = static_cast<float*>(
      ctx.workspace(static_cast<size_t>(tile_floats + words + scales) * sizeof(float)));
  LinearOperand x{static_cast<const uint32_t*>(args.x.raw()), args.x.row_stride(), nullptr,
                  nullptr};
  if (f32) {
    if (args.norm != nullptr) cpu::layer_norm(ctx, *args.norm);
  } else {
    uint32_t* converted = reinterpret_cast<uint32_t*>(tiles + tile_floats);
    float* row_scales = tiles + tile_floats + words;
    auto* row_offsets = reinterpret_cast<int32_t*>(row_scales + rows);  // of int8
    for_rows(ctx, rows, bytes_to_convert(args), [&](int64_t i) {
      if (args.norm != nullptr) norm_row(*args.norm, i);
      uint32_t* to = converted + i * row_words;
      if (i8) {
        row_scales[i] = isa.to_i8_steps(args.x.row<float>(i), k, to, row_offsets + i);
      } else {
        isa.to_bf16_steps(args.x.row<float>(i), k, to);
      }
    });
    x = {converted, row_words, i8 ? row_scales : nullptr, i8 ? row_offsets : nullptr};
  }
  const Product product(args, x, tiles, plan, kernel, ctx.threads(), best);
  run_tasks(ctx, plan.tasks(), product);
}

}  // namespace tandem::cpu
