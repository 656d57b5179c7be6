// The CPU's linear layers over weights in int4. With few rows a task streams its panels from memory
// once, four bits at a time; with many, slices of panels are expanded to int8 beside the cores and
// multiplied as those of an int8 weight. The bits are the same.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/packed_weight.h"

namespace tandem::cpu {
namespace {

// Up to so many the bits are taken apart for each pass of rows.
constexpr int64_t kFewRows = 12;
constexpr int64_t kSliceGroups = 32;  // 64 KB of int8: in the second cache

struct PlanI4 {
  int64_t rows_per_block, row_blocks;
  int64_t panels_per_task, panel_tasks;
};

PlanI4 make_plan_i4(int64_t rows, int64_t panels, int64_t panel_bytes, const GemmBlocking& cut,
                    int threads) {
  PlanI4 p{};
  const bool few = rows <= kFewRows;
  p.row_blocks = few ? 1 : ceil_div(rows, cut.rows_per_block);
  p.rows_per_block = few ? rows : round_up(ceil_div(rows, p.row_blocks), cut.tile_rows);
  p.row_blocks = ceil_div(rows, p.rows_per_block);
  const int64_t wanted = ceil_div(int64_t{threads} * 8, p.row_blocks);
  const int64_t least = ceil_div(kTaskBytes, panel_bytes);
  p.panels_per_task = std::clamp<int64_t>(panels / wanted, least, std::max<int64_t>(least, panels));
  p.panel_tasks = ceil_div(panels, p.panels_per_task);
  return p;
}

// Words from row to row: rows a power of two apart would share a few sets of the first cache.
int64_t padded_words(int64_t words) {
  constexpr int64_t kLine = 64 / sizeof(uint32_t);
  return (ceil_div(words, kLine) | 1) * kLine;
}

// x as gemm_i8 takes it (`steps`) or, of few rows, as gemm_i4 does.
struct OperandI4 {
  const uint32_t* x;
  int64_t ldx;
  const float* scales;
};

// One op.
class ProductI4 {
 public:
  ProductI4(const ops::LinearArgs& args, const OperandI4& x, float* scratch, const PlanI4& plan,
            const IsaKernels& isa)
      : args_(args),
        x_(x),
        scratch_(scratch),
        plan_(plan),
        isa_(isa),
        rows_(args.x.dim(0)),
        k_(args.weight->in_features()),
        groups_(i4_groups_of(k_)) {}

  // Of a thread: the tile of sums, then a slice of a panel.
  static int64_t tile_floats(const PlanI4& plan) { return plan.rows_per_block * kPanelColumns; }
  static int64_t slice_words(int64_t k) {
    return std::min(i4_groups_of(k), kSliceGroups) * kI4GroupSteps * kPanelColumns;
  }
  static int64_t scratch_words(const PlanI4& plan, int64_t k) {
    return tile_floats(plan) + slice_words(k);
  }

  void operator()(int64_t task, int thread) const {
    const int64_t row = task % plan_.row_blocks * plan_.rows_per_block;
    const int64_t rows = std::min(plan_.rows_per_block, rows_ - row);
    const int64_t panels = ceil_div(args_.weight->out_features(), kPanelColumns);
    const int64_t first = task / plan_.row_blocks * plan_.panels_per_task;
    const int64_t last = std::min(panels, first + plan_.panels_per_task);
    float* tile = scratch_ + thread * scratch_words(plan_, k_);
    for (int64_t panel = first; panel < last; ++panel) {
      GemmBlock b = block_of(panel, row, rows, tile);
      if (rows_ <= kFewRows) {
        b.finish = true;
        b.steps = groups_;
        isa_.gemm_i4(b);
      } else {
        run_slices(b, panel + 1 < last, tile + tile_floats(plan_));
      }
    }
  }

 private:
  // Without steps; w: the panel.
  GemmBlock block_of(int64_t panel, int64_t row, int64_t rows, float* tile) const {
    const int64_t column = panel * kPanelColumns;
    const int64_t columns = std::min<int64_t>(kPanelColumns, args_.weight->out_features() - column);
    const bool direct = columns == kPanelColumns && (rows_ <= kFewRows || groups_ <= kSliceGroups);
    float* out = args_.out.row<float>(row) + column;
    const std::byte* w =
        static_cast<const std::byte*>(args_.weight->data().raw()) + panel * i4_panel_bytes(k_);
    GemmBlock b{};
    b.x = x_.x + row * x_.ldx;
    b.ldx = x_.ldx;
    b.rows = rows;
    b.w = w;
    b.columns = static_cast<int>(columns);
    b.c = direct ? out : tile;
    b.ldc = direct ? args_.out.row_stride() : kPanelColumns;
    b.out = direct ? nullptr : out;
    b.ldo = args_.out.row_stride();
    b.bias = args_.bias.empty() ? nullptr : args_.bias.data<float>() + column;
    b.activation = args_.activation;
    b.row_scales = x_.scales + row;
    b.column_scales = reinterpret_cast<const float*>(w + groups_ * kI4GroupBytes);
    b.column_offsets = b.column_scales + kPanelColumns;
    return b;
  }

  void run_slices(GemmBlock& b, bool more, float* slice) const {
    const std::byte* w = static_cast<const std::byte*>(b.w);
    const uint32_t* x = static_cast<const uint32_t*>(b.x);
    const int64_t steps = steps_of(k_, DType::kI8);
    int64_t group = 0;
    do {  // once for K = 0
      const int64_t end = std::min(groups_, group + kSliceGroups);
      const int64_t step = group * kI4GroupSteps;
      isa_.expand_i4(w + group * kI4GroupBytes, end - group, slice);
      b.x = x + step * isa_.gemm_i8.step_words;
      b.w = slice;
      b.steps = std::min(steps, end * kI4GroupSteps) - step;
      b.next = end < groups_ || more ? slice : nullptr;
      b.accumulate = group > 0;
      b.finish = end == groups_;
      isa_.gemm_i8.run(b);
      group = end;
    } while (group < groups_);
  }

  const ops::LinearArgs& args_;
  const OperandI4 x_;
  float* scratch_;
  const PlanI4& plan_;
  const IsaKernels& isa_;
  int64_t rows_, k_, groups_;
};

}  // namespace

void linear_i4(Context& ctx, const ops::LinearArgs& args) {
  const IsaKernels& isa = isa_kernels();
  const int64_t rows = args.x.dim(0), k = args.weight->in_features();
  const PlanI4 plan = make_plan_i4(rows, ceil_div(args.weight->out_features(), kPanelColumns),
                                   i4_panel_bytes(k), isa.gemm_i8.blocking, ctx.threads());
  const bool few = rows <= kFewRows;
  const int64_t step_words = padded_words(steps_of(k, DType::kI8) * isa.gemm_i8.step_words);
  const int64_t group_words = few ? padded_words(i4_groups_of(k) * kI4GroupWords) : 0;
  const int64_t scratch = ProductI4::scratch_words(plan, k) * ctx.threads();
  float* all = static_cast<float*>(ctx.workspace(
      static_cast<size_t>(scratch + rows * (step_words + group_words + 1)) * sizeof(float)));
  uint32_t* steps = reinterpret_cast<uint32_t*>(all + scratch);
  uint32_t* groups = steps + rows * step_words;
  float* scales = reinterpret_cast<float*>(groups + rows * group_words);
  for_rows(ctx, rows, k * 6, [&](int64_t i) {
    scales[i] = isa.to_i8_steps(args.x.row<float>(i), k, steps + i * step_words);
    if (few) isa.to_i4_groups(steps + i * step_words, k, groups + i * group_words);
  });
  const OperandI4 x =
      few ? OperandI4{groups, group_words, scales} : OperandI4{steps, step_words, scales};
  const ProductI4 product(args, x, all, plan, isa);
  run_tasks(ctx, plan.row_blocks * plan.panel_tasks, product);
}

}  // namespace tandem::cpu
