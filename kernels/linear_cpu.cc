// The CPU's linear layers. A packed weight is panels of 64 output features, [ceil(N /
// 64)][steps][64], where a step is one k in f32 and a pair of k in bf16 (4 bytes either way); what
// is beyond N or K is zero.
//
// Tasks are blocks of rows times groups of panels. With few rows a task streams its panels from
// memory once; with many, a block of rows of x stays in the second cache while slices of panels
// pass by.
#include <cstring>

#include "kernels/cpu/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

constexpr int64_t kStepBytes = kPanelColumns * 4;

int64_t steps_of(int64_t k, DType dtype) { return dtype == DType::kF32 ? k : ceil_div(k, 2); }

// --- Packing
// ---------------------------------------------------------------------------------------

float element(const std::byte* row, int64_t i, DType dtype) {
  if (dtype == DType::kF32) {
    float f;
    std::memcpy(&f, row + i * 4, 4);
    return f;
  }
  uint16_t h;
  std::memcpy(&h, row + i * 2, 2);
  return dtype == DType::kBF16 ? bf16_to_float(h) : f16_to_float(h);
}

// The bytes of row n of the stacked parts.
struct Row {
  const std::byte* data;
  DType dtype;
};
Row find_row(std::span<const MatrixView> parts, int64_t n) {
  size_t i = 0;
  while (n >= parts[i].rows) n -= parts[i++].rows;
  const MatrixView& part = parts[i];
  return {static_cast<const std::byte*>(part.data) +
              static_cast<size_t>(n * part.row_stride) * size_of(part.dtype),
          part.dtype};
}

// Elements [begin, end) of a row to column j of a panel.
void pack_f32(const Row& row, int64_t begin, int64_t end, float* column) {
  for (int64_t k = begin; k < end; ++k) column[k * kPanelColumns] = element(row.data, k, row.dtype);
}
void pack_bf16(const Row& row, int64_t begin, int64_t end, uint16_t* column) {
  for (int64_t k = begin; k < end; ++k)
    column[k / 2 * kPanelColumns * 2 + k % 2] = float_to_bf16(element(row.data, k, row.dtype));
}

}  // namespace

Tensor pack_weight(Context& ctx, std::span<const MatrixView> parts, DType dtype) {
  constexpr int64_t kBlock = 64;  // of k, so that the lines written to stay in cache
  int64_t n = 0;
  for (const MatrixView& part : parts) n += part.rows;
  const int64_t k = parts[0].columns, steps = steps_of(k, dtype),
                panels = ceil_div(n, kPanelColumns);
  Tensor data({panels * steps * kStepBytes}, DType::kU8);
  auto job = [&](int64_t panel, int) {
    std::byte* to = static_cast<std::byte*>(data.raw()) + panel * steps * kStepBytes;
    const int64_t columns = std::min<int64_t>(kPanelColumns, n - panel * kPanelColumns);
    if (columns < kPanelColumns || k % 2 != 0)
      std::memset(to, 0, static_cast<size_t>(steps * kStepBytes));
    for (int64_t begin = 0; begin < k; begin += kBlock) {
      const int64_t end = std::min(k, begin + kBlock);
      for (int64_t j = 0; j < columns; ++j) {
        const Row row = find_row(parts, panel * kPanelColumns + j);
        if (dtype == DType::kF32) {
          pack_f32(row, begin, end, reinterpret_cast<float*>(to) + j);
        } else {
          pack_bf16(row, begin, end, reinterpret_cast<uint16_t*>(to) + 2 * j);
        }
      }
    }
  };
  run_tasks(ctx, panels, job);
  return data;
}

namespace {

// --- Product
// ---------------------------------------------------------------------------------------

// Measured on Zen 4; flat around these. Both halves of a step's product fit the second cache.
constexpr int64_t kRowsPerBlock = 96;
constexpr int64_t kStepWordsPerBlock = 256;

// How the work is cut. None of it changes a bit of the result.
struct Plan {
  int64_t rows_per_block, row_blocks;
  int64_t panels_per_task, panel_tasks;
  int64_t steps_per_block;
};

Plan make_plan(int64_t rows, int64_t panels, int64_t steps, int step_words, int threads) {
  Plan p{};
  p.row_blocks = ceil_div(rows, kRowsPerBlock);
  p.rows_per_block = ceil_div(ceil_div(rows, p.row_blocks), kMaxTileRows) * kMaxTileRows;
  p.row_blocks = ceil_div(rows, p.rows_per_block);
  // Enough tasks to even out the threads, but none so small that claiming it shows.
  const int64_t wanted = ceil_div(int64_t{threads} * 8, p.row_blocks);
  const int64_t panel_bytes = steps * kStepBytes * ceil_div(p.rows_per_block, kMaxTileRows);
  const int64_t least = ceil_div(kTaskBytes, panel_bytes + 1);
  p.panels_per_task = std::clamp<int64_t>(panels / wanted, least, std::max<int64_t>(least, panels));
  p.panel_tasks = ceil_div(panels, p.panels_per_task);
  p.steps_per_block = rows <= kMaxTileRows ? steps : kStepWordsPerBlock / step_words;
  return p;
}

// One op. x is read as rows of steps of one word or two.
class Product {
 public:
  Product(const ops::LinearArgs& args, const uint32_t* x, int64_t ldx, int step_words, float* tiles,
          const Plan& plan, void (*gemm)(const GemmBlock&))
      : args_(args),
        x_(x),
        ldx_(ldx),
        step_words_(step_words),
        tiles_(tiles),
        plan_(plan),
        gemm_(gemm),
        steps_(steps_of(args.weight->in_features(), args.weight->dtype())),
        panels_(ceil_div(args.weight->out_features(), kPanelColumns)) {}

  // A scratch tile per thread, for the panel that N does not fill.
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
    const bool whole = columns == kPanelColumns;
    float* out = args_.out.row<float>(row) + column;
    const std::byte* w =
        static_cast<const std::byte*>(args_.weight->data().raw()) + panel * steps_ * kStepBytes;
    GemmBlock b{};
    b.ldx = ldx_;
    b.rows = rows;
    b.columns = static_cast<int>(columns);
    b.c = whole ? out : tile;
    b.ldc = whole ? args_.out.row_stride() : kPanelColumns;
    b.bias = args_.bias.empty() ? nullptr : args_.bias.data<float>() + column;
    b.activation = args_.activation;
    int64_t step = 0;
    do {  // once for K = 0
      const int64_t end = std::min(steps_, step + plan_.steps_per_block);
      b.x = x_ + row * ldx_ + step * step_words_;
      b.w = w + step * kStepBytes;
      b.steps = end - step;
      b.next = end < steps_ || more ? w + end * kStepBytes : nullptr;
      b.accumulate = step > 0;
      b.finish = end == steps_;
      gemm_(b);
      step = end;
    } while (step < steps_);
    if (whole) return;
    for (int64_t i = 0; i < rows; ++i)
      std::memcpy(out + i * args_.out.row_stride(), tile + i * kPanelColumns,
                  static_cast<size_t>(columns) * sizeof(float));
  }

  const ops::LinearArgs& args_;
  const uint32_t* x_;
  int64_t ldx_;
  int64_t step_words_;
  float* tiles_;
  const Plan& plan_;
  void (*gemm_)(const GemmBlock&);
  int64_t steps_, panels_;
};

}  // namespace

void linear(Context& ctx, const ops::LinearArgs& args) {
  const IsaKernels& isa = isa_kernels();
  const PackedWeight& w = *args.weight;
  const int64_t rows = args.x.dim(0), k = w.in_features(), steps = steps_of(k, w.dtype());
  const bool f32 = w.dtype() == DType::kF32;
  const int step_words = f32 ? 1 : isa.bf16_step_words;
  const Plan plan =
      make_plan(rows, ceil_div(w.out_features(), kPanelColumns), steps, step_words, ctx.threads());
  const int64_t tile_floats = Product::tile_floats(plan) * ctx.threads();
  const int64_t row_words = steps * step_words;
  const int64_t words = f32 ? 0 : rows * row_words;  // of x in bf16
  float* tiles =
      static_cast<float*>(ctx.workspace(static_cast<size_t>(tile_floats + words) * sizeof(float)));
  const uint32_t* x = static_cast<const uint32_t*>(args.x.raw());
  int64_t ldx = args.x.row_stride();
  if (!f32) {
    uint32_t* rounded = reinterpret_cast<uint32_t*>(tiles + tile_floats);
    for_rows(ctx, rows, k * 6, [&](int64_t i) {
      isa.to_bf16_steps(args.x.row<float>(i), k, rounded + i * row_words);
    });
    x = rounded;
    ldx = row_words;
  }
  const Product product(args, x, ldx, step_words, tiles, plan, f32 ? isa.gemm_f32 : isa.gemm_bf16);
  run_tasks(ctx, plan.row_blocks * plan.panel_tasks, product);
}

}  // namespace tandem::cpu
