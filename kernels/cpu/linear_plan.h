// Shared by linear layers over packed weights of all types: the cut of their work, the rows of x,
// the destination of sums.
#pragma once

#include <algorithm>

#include "kernels/cpu/packed_weight.h"

namespace tandem::cpu {

// Tasks are blocks of rows times groups of panels. The cut changes no bit of the result.
struct TaskPlan {
  int64_t rows_per_block, row_blocks;
  int64_t panels_per_task, panel_tasks;

  // most_rows: of a block. least_panels(rows_per_block): panels of a task that make the cost of
  // claiming it negligible.
  template <class LeastPanels>
  TaskPlan(int64_t rows, int64_t most_rows, int64_t tile_rows, int64_t panels, int threads,
           const LeastPanels& least_panels) {
    row_blocks = ceil_div(rows, most_rows);
    rows_per_block = round_up(ceil_div(rows, row_blocks), tile_rows);
    row_blocks = ceil_div(rows, rows_per_block);
    // Enough tasks to balance the threads; equal tasks are a multiple of the threads.
    int64_t wanted = ceil_div(int64_t{threads} * 8, row_blocks);
    if (row_blocks % threads != 0) wanted = round_up(wanted, threads);
    const int64_t least = least_panels(rows_per_block);
    panels_per_task = std::clamp<int64_t>(panels / wanted, least, std::max<int64_t>(least, panels));
    panel_tasks = ceil_div(panels, panels_per_task);
  }

  int64_t tasks() const { return row_blocks * panel_tasks; }
  struct Range {
    int64_t row, rows;
    int64_t first, last;  // panels
  };
  Range range_of(int64_t task, int64_t rows, int64_t panels) const {
    const int64_t row = task % row_blocks * rows_per_block;
    const int64_t first = task / row_blocks * panels_per_task;
    return {row, std::min(rows_per_block, rows - row), first,
            std::min(panels, first + panels_per_task)};
  }
};

// x as a kernel takes it: rows of steps (or groups).
struct LinearOperand {
  const uint32_t* x;
  int64_t ldx;
  const float* scales;     // of the rows, with integer weights; else nullptr
  const int32_t* offsets;  // the same (IsaKernels::to_i8_steps)
};

// Bytes touched for a row of x before the product, about.
inline int64_t bytes_to_convert(const ops::LinearArgs& args) {
  return args.x.dim(1) * (args.norm != nullptr ? 18 : 6);
}

// Where products go: the element of a row and of a panel's first feature.
struct Destination {
  float* base;
  int64_t stride;
  int64_t row = 0, panel = 0;  // of `base`

  float* at(int64_t r, int64_t p) const {
    return base + (r - row) * stride + (p - panel) * kPanelColumns;
  }
};

// A panel's product with some rows, without the steps.
// tile: memory for sums that are not computed in place; those of a panel that N does not fill never
// are. scales: behind the panel's weights.
inline GemmBlock block_of_panel(const ops::LinearArgs& args, const LinearOperand& x,
                                const Destination& to, int64_t panel, int64_t row, int64_t rows,
                                bool direct, float* tile, const std::byte* scales) {
  const int64_t column = panel * kPanelColumns;
  const int64_t columns = std::min<int64_t>(kPanelColumns, args.weight->out_features() - column);
  direct = direct && columns == kPanelColumns;
  float* out = to.at(row, panel);
  GemmBlock b{};
  b.ldx = x.ldx;
  b.rows = rows;
  b.columns = static_cast<int>(columns);
  b.c = direct ? out : tile;
  b.ldc = direct ? to.stride : kPanelColumns;
  b.out = direct ? nullptr : out;
  b.ldo = to.stride;
  b.bias = args.bias.empty() ? nullptr : args.bias.data<float>() + column;
  b.activation = args.activation;
  if (x.scales != nullptr) {
    b.row_scales = x.scales + row;
    b.row_offsets = x.offsets + row;
    b.column_scales = reinterpret_cast<const float*>(scales);
    b.column_offsets = b.column_scales + kPanelColumns;
  }
  return b;
}

}  // namespace tandem::cpu
