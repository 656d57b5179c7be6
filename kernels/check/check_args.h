// What the checks of the ops share.
#pragma once

#include <cstdint>
#include <string>

#include "base/check.h"
#include "kernels/core/context.h"
#include "kernels/core/tensor.h"
#include "kernels/ops.h"

namespace tandem {

// (The strings are made only to report a difference.)
inline void check_shape_and_type(const Tensor& t, const int64_t* dims, int rank, DType dtype) {
  bool same = t.rank() == rank && t.dtype() == dtype;
  for (int i = 0; same && i < rank; ++i) same = t.dim(i) == dims[i];
  if (same) return;
  TANDEM_CHECK_EQ(to_string(t.shape()), to_string(Shape(dims, dims + rank)));
  TANDEM_CHECK_EQ(std::string(name_of(t.dtype())), name_of(dtype));
}

// Activations between layers, on the context's device and in its type.
inline void check_activations(const Context& ctx, const Tensor& t, int64_t rows, int64_t columns) {
  const int64_t dims[] = {rows, columns};
  check_shape_and_type(t, dims, 2, ctx.activations());
  TANDEM_CHECK(t.device() == ctx.device(), "a tensor of another device");
}

inline void check_matrix(const Tensor& t, int64_t rows, int64_t columns) {
  const int64_t dims[] = {rows, columns};
  check_shape_and_type(t, dims, 2, DType::kF32);
}

// On the context's device.
inline void check_matrix_there(const Context& ctx, const Tensor& t, int64_t rows, int64_t columns) {
  check_matrix(t, rows, columns);
  TANDEM_CHECK(t.device() == ctx.device(), "a tensor of another device");
}

inline void check_vector(const Tensor& t, int64_t size, DType dtype) {
  check_shape_and_type(t, &size, 1, dtype);
}

inline void check_table_type(const Tensor& t) {
  TANDEM_CHECK(t.dtype() == DType::kF32 || t.dtype() == DType::kBF16);
}

inline void check_bias(const Context& ctx, const ops::PositionBias& bias, int64_t heads) {
  if (bias.values.empty()) return;
  TANDEM_CHECK_EQ(bias.values.rank(), 2);
  TANDEM_CHECK_GE(bias.values.dim(1), 1);
  TANDEM_CHECK_LT(bias.values.dim(1), int64_t{1} << 30);
  check_matrix(bias.values, heads, bias.values.dim(1));
  TANDEM_CHECK(bias.values.contiguous() && bias.values.device() == ctx.device());
  // Of the indices in int32.
  TANDEM_CHECK(bias.zero > -(1 << 30) && bias.zero < 1 << 30);
}

// Of `rows` tokens and heads of head_dim values; empty angles turn nothing.
inline void check_rotary(const Context& ctx, const ops::Rotary& rotary, int64_t rows,
                         int64_t head_dim) {
  if (rotary.angles.empty()) return;
  TANDEM_CHECK_EQ(rotary.angles.rank(), 2);
  const int64_t turned = rotary.angles.dim(1);
  check_matrix_there(ctx, rotary.angles, rows, turned);
  TANDEM_CHECK_EQ(turned % 2, 0);
  TANDEM_CHECK_LE(turned, head_dim);
}

// (In kernels/check/rows.cc.)
void check_layer_norm(const Context& ctx, const ops::LayerNormArgs& args);

// The checks of index values need host memory. On the CPU the ops do them; for a device they are
// done before the upload (models/step/step_tensors.h).

// Offsets of `sequences` ranges: from 0, not decreasing, to `end`.
inline void check_indptr(const Tensor& t, int64_t sequences, int64_t end) {
  check_vector(t, sequences + 1, DType::kI32);
  if (t.device() != Device::kCpu) return;
  const int32_t* p = t.data<int32_t>();
  TANDEM_CHECK_EQ(p[0], 0);
  for (int64_t i = 0; i < sequences; ++i) TANDEM_CHECK_LE(p[i], p[i + 1]);
  TANDEM_CHECK_EQ(static_cast<int64_t>(p[sequences]), end);
}

// `count` ranges of at least `least` rows each, of [0, rows).
inline void check_ranges(const Context& ctx, const Tensor& t, int64_t count, int64_t rows,
                         int64_t least) {
  const int64_t dims[] = {count, 2};
  check_shape_and_type(t, dims, 2, DType::kI32);
  TANDEM_CHECK(t.contiguous() && t.device() == ctx.device());
  if (t.device() != Device::kCpu) return;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t* range = t.row<int32_t>(i);
    TANDEM_CHECK_GE(range[0], 0);
    TANDEM_CHECK_GE(int64_t{range[1]} - range[0], least);
    TANDEM_CHECK_LE(int64_t{range[1]}, rows);
  }
}

// Every element in [begin, end).
inline void check_range(const Tensor& t, int64_t begin, int64_t end) {
  if (t.device() != Device::kCpu) return;
  const int32_t* p = t.data<int32_t>();
  int32_t low = 0, high = 0;
  for (int64_t i = 0; i < t.size(); ++i) {
    if (i == 0 || p[i] < low) low = p[i];
    if (i == 0 || p[i] > high) high = p[i];
  }
  if (t.size() == 0) return;
  TANDEM_CHECK_GE(int64_t{low}, begin);
  TANDEM_CHECK_LT(int64_t{high}, end);
}

}  // namespace tandem
