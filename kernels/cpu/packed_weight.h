// The layout of a packed weight in the CPU's memory: panels of 64 output features, each [steps][64]
// of 4 bytes. A step is one k in f32, a pair in bf16, four in int8. Elements beyond N or K are
// zero. In int8 the scales of the 64 features follow (f32), then 128 times the sums of their
// weights (i32).
//
// In int4 a panel is groups of 32 inputs. A group is four steps [64] of eight k each, then the
// group's factors [64], int8, |factor| <= 15. Byte i of a step holds q + 8 (0..15) of k = i in its
// low half and of k = 4 + i in its high half. Scales and sums follow as in int8. A weight is scale
// * (factor * q), and factor * q is an int8. So an int4 weight is an int8 weight with fewer values,
// and its sums are exact integers, too.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "kernels/core/types.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {

constexpr int64_t kStepBytes = kPanelColumns * 4;

constexpr int64_t inputs_of_step(DType dtype) { return static_cast<int64_t>(4 / size_of(dtype)); }
constexpr int64_t steps_of(int64_t k, DType dtype) { return ceil_div(k, inputs_of_step(dtype)); }
constexpr int64_t panel_bytes(int64_t k, DType dtype) {
  return (steps_of(k, dtype) + (dtype == DType::kI8 ? 2 : 0)) * kStepBytes;
}

constexpr int64_t i4_groups_of(int64_t k) { return ceil_div(k, kI4GroupInputs); }
constexpr int64_t i4_panel_bytes(int64_t k) {
  return i4_groups_of(k) * kI4GroupBytes + 2 * kStepBytes;
}

// A row of a weight as it lies in a file.
struct SourceRow {
  const std::byte* data;
  DType dtype;  // f32, f16 or bf16

  float operator[](int64_t i) const {
    if (dtype == DType::kF32) {
      float f;
      std::memcpy(&f, data + i * 4, 4);
      return f;
    }
    uint16_t h;
    std::memcpy(&h, data + i * 2, 2);
    return dtype == DType::kBF16 ? bf16_to_float(h) : f16_to_float(h);
  }
};
// Row n of the stacked parts.
inline SourceRow find_row(std::span<const MatrixView> parts, int64_t n) {
  size_t i = 0;
  while (n >= parts[i].rows) n -= parts[i++].rows;
  const MatrixView& part = parts[i];
  return {static_cast<const std::byte*>(part.data) +
              static_cast<size_t>(n * part.row_stride) * size_of(part.dtype),
          part.dtype};
}

// To the nearest integer, ties to even, for |x| < 2^22.
inline float round_nearest(float x) { return (x + 12582912.0f) - 12582912.0f; }

// The largest magnitude in an output feature, which sets its scale. 0 if it is too small for its
// inverse, or if an element is not finite.
struct FeatureRange {
  float largest;
  bool finite;
};
template <class Row>
FeatureRange range_of_feature(const Row& row, int64_t k) {
  constexpr float kLeast = 1e-30f;
  float largest = 0;
  bool finite = true;
  for (int64_t i = 0; i < k; ++i) {
    const float magnitude = std::abs(row[i]);
    finite &= std::isfinite(magnitude);
    largest = std::max(largest, magnitude);
  }
  return {finite && largest >= kLeast ? largest : 0, finite};
}

// The int4 part of pack_weight().
Tensor pack_weight_i4(Context& ctx, std::span<const MatrixView> parts);

}  // namespace tandem::cpu
