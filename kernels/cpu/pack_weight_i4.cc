// Packs weights in int4 for the CPU's linear layers (kernels/cpu/packed_weight.h). An output
// feature has the scale s, its largest magnitude / 120, and each 32 of its inputs an integer factor
// f, |f| <= 15: a weight is s f q, q from -8 to 7. Of the factors that come into question, of
// either sign, a group takes the one with the least squared error. A feature with a NaN or an
// infinity has the scale NaN, which makes its products NaN.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cpu/packed_weight.h"

namespace tandem::cpu {
namespace {

constexpr float kRange = 120;  // 15 * 8
constexpr int kErrorLanes = 8;

float to_four_bits(float x) { return std::min(std::max(round_nearest(x), -8.0f), 7.0f); }

// The squared error of the 32 values as multiples of `factor`.
float error_of(const float* values, float factor) {
  float errors[kErrorLanes] = {};
  const float inverse = 1.0f / factor;
  for (int i = 0; i < kI4GroupInputs; i += kErrorLanes)
    for (int j = 0; j < kErrorLanes; ++j) {
      const float value = values[i + j];
      const float e = value - factor * to_four_bits(value * inverse);
      errors[j] += e * e;
    }
  float sum = 0;
  for (const float e : errors) sum += e;
  return sum;
}

// The factor of 32 values of at most kRange: 0 if they are all zero.
int best_factor(const float* values) {
  float largest = 0;
  for (int i = 0; i < kI4GroupInputs; ++i) largest = std::max(largest, std::abs(values[i]));
  if (largest == 0) return 0;
  // From a range that cuts off a quarter to one that holds the largest at either end.
  const int low = std::max(1, static_cast<int>(largest * 0.75f / 8)),
            high = std::min(15, static_cast<int>(std::ceil(largest / 7)));
  int best = 0;
  float least = std::numeric_limits<float>::infinity();
  for (int factor = low; factor <= high; ++factor)
    for (const int sign : {1, -1}) {
      const float error = error_of(values, static_cast<float>(sign * factor));
      if (error >= least) continue;
      least = error;
      best = sign * factor;
    }
  return best;
}

// Column j of a panel.
struct Column {
  std::byte* groups;
  int64_t j;

  uint8_t* quads(int64_t group, int step) const {
    return reinterpret_cast<uint8_t*>(groups + group * kI4GroupBytes + step * kStepBytes) + 4 * j;
  }
  void set_factor(int64_t group, int factor) const {
    groups[(group + 1) * kI4GroupBytes - kPanelColumns + j] =
        static_cast<std::byte>(static_cast<int8_t>(factor));
  }
};

// Writes a group; returns the sum of factor * q.
int32_t pack_group(const float* values, const Column& to, int64_t group) {
  const int factor = best_factor(values);
  to.set_factor(group, factor);
  const float inverse = factor == 0 ? 0 : 1.0f / static_cast<float>(factor);
  int32_t sum = 0;
  for (int i = 0; i < kI4GroupInputs; ++i) {
    const int q = static_cast<int>(to_four_bits(values[i] * inverse));
    sum += q;
    to.quads(group, i / 8)[i % 4] |= static_cast<uint8_t>((q + 8) << (i % 8 / 4 * 4));
  }
  return factor * sum;
}

// `row`: in floats, room for whole groups. Returns the scale; adds to `sum` those of factor * q.
float pack_feature(float* row, int64_t k, const Column& to, int32_t& sum) {
  const auto [largest, finite] = range_of_feature(row, k);
  const int64_t padded = i4_groups_of(k) * kI4GroupInputs;
  const bool zero = largest == 0;
  if (zero) std::fill_n(row, padded, 0.0f);
  std::fill(row + k, row + padded, 0.0f);
  const float inverse = zero ? 0 : kRange / largest;
  for (int64_t i = 0; i < k; ++i) row[i] *= inverse;
  for (int64_t group = 0; group * kI4GroupInputs < padded; ++group)
    sum += pack_group(row + group * kI4GroupInputs, to, group);
  if (!finite) return std::numeric_limits<float>::quiet_NaN();
  return zero ? 0 : largest / kRange;
}

}  // namespace

Tensor pack_weight_i4(Context& ctx, std::span<const MatrixView> parts) {
  int64_t n = 0;
  for (const MatrixView& part : parts) n += part.rows;
  const int64_t k = parts[0].columns, groups = i4_groups_of(k), bytes = i4_panel_bytes(k);
  const int64_t panels = ceil_div(n, kPanelColumns);
  Tensor data({panels * bytes}, DType::kU8);
  auto job = [&](int64_t panel, int) {
    std::byte* to = static_cast<std::byte*>(data.raw()) + panel * bytes;
    std::memset(to, 0, static_cast<size_t>(bytes));
    std::byte* end = to + groups * kI4GroupBytes;
    std::vector<float> row(static_cast<size_t>(groups * kI4GroupInputs));
    const int64_t first = panel * kPanelColumns;
    for (int64_t j = 0; j < std::min<int64_t>(kPanelColumns, n - first); ++j) {
      const SourceRow source = find_row(parts, first + j);
      for (int64_t i = 0; i < k; ++i) row[static_cast<size_t>(i)] = source[i];
      int32_t sum = 0;
      const float scale = pack_feature(row.data(), k, {to, j}, sum);
      const int32_t offset = 128 * sum;
      std::memcpy(end + j * 4, &scale, 4);
      std::memcpy(end + kStepBytes + j * 4, &offset, 4);
    }
  };
  run_tasks(ctx, panels, job);
  return data;
}

}  // namespace tandem::cpu
