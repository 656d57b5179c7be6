// The CPU's ops (kernels/op_list.h) and their shared helpers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/core/context.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/decoder_ops.h"
#include "kernels/layouts/layout_ops.h"
#include "kernels/op_list.h"
#include "kernels/ops.h"
#include "kernels/sampling_ops.h"
#include "kernels/sound_ops.h"

namespace tandem::cpu {

Tensor pack_weight(Context& ctx, std::span<const MatrixView> parts, DType dtype);
#define TANDEM_OP_FUNCTION(name, Args, file) void name(Context& ctx, const ops::Args& args);
TANDEM_OPS(TANDEM_OP_FUNCTION)
#undef TANDEM_OP_FUNCTION

// A row of layer_norm().
void norm_row(const ops::LayerNormArgs& args, int64_t row);

// Of heads from `head` on.
inline HeadBias head_bias(const ops::PositionBias& bias, int64_t head) {
  if (bias.values.empty()) return {};
  return {bias.values.row<float>(head), bias.values.dim(1) - 1, bias.zero};
}

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t to) { return ceil_div(a, to) * to; }

// Words from one row to the next: rows a power of two apart would share a few sets of the first
// cache.
constexpr int64_t padded_row_words(int64_t words) {
  constexpr int64_t kLine = 64 / sizeof(uint32_t);
  return (ceil_div(words, kLine) | 1) * kLine;
}

// Whether an output is too large for its reader to find any of it in the second-level cache. Then
// writing past the caches saves reading the lines first.
inline bool passes_caches(const Tensor& out) {
  constexpr int64_t kLargeBytes = int64_t{4} << 20, kLeastRows = 256, kLine = 64;
  const int64_t row_bytes = out.row_stride() * static_cast<int64_t>(sizeof(float));
  return out.dim(0) >= kLeastRows && out.dim(0) * out.dim(1) * 4 >= kLargeBytes &&
         row_bytes % kLine == 0 && reinterpret_cast<uintptr_t>(out.raw()) % kLine == 0;
}

// Calls job(task, thread) for each task. (The closure is one pointer, so that std::function does
// not allocate.)
template <class Job>
void run_tasks(Context& ctx, int64_t tasks, Job& job) {
  ctx.pool().run(tasks, [&job](int64_t task, int thread) { job(task, thread); });
}

// Bytes of work below which a task is not worth handing to another thread.
constexpr int64_t kTaskBytes = 32 << 10;

// Calls body(row) for each row, in tasks of consecutive rows that touch about kTaskBytes each.
template <class Body>
void for_rows(Context& ctx, int64_t rows, int64_t bytes_per_row, const Body& body) {
  const int64_t chunk = std::max<int64_t>(1, kTaskBytes / std::max<int64_t>(1, bytes_per_row));
  auto job = [&](int64_t task, int) {
    const int64_t end = std::min(rows, (task + 1) * chunk);
    for (int64_t row = task * chunk; row < end; ++row) body(row);
  };
  run_tasks(ctx, ceil_div(rows, chunk), job);
}

}  // namespace tandem::cpu
