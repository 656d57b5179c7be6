// Packs weights for the CPU's linear layers (kernels/cpu/packed_weight.h), from the types of a
// checkpoint to the compute type. In int8 each output feature has its own scale, its largest
// magnitude / 127; one with a NaN or an infinity has the scale NaN, which makes its products NaN.
#include <cstring>
#include <limits>

#include "kernels/cpu/packed_weight.h"

namespace tandem::cpu {
namespace {

// Elements [begin, end) of a row to column j of a panel.
void pack_f32(const SourceRow& row, int64_t begin, int64_t end, float* column) {
  for (int64_t k = begin; k < end; ++k) column[k * kPanelColumns] = row[k];
}
void pack_bf16(const SourceRow& row, int64_t begin, int64_t end, uint16_t* column) {
  for (int64_t k = begin; k < end; ++k)
    column[k / 2 * kPanelColumns * 2 + k % 2] = float_to_bf16(row[k]);
}
// Returns the sum of the elements. With `inverse` = 0 they are all zero.
int32_t pack_i8(const SourceRow& row, int64_t begin, int64_t end, float inverse, int8_t* column) {
  int32_t sum = 0;
  for (int64_t k = begin; k < end; ++k) {
    const float q = inverse == 0 ? 0 : round_nearest(row[k] * inverse);
    column[k / 4 * kPanelColumns * 4 + k % 4] = static_cast<int8_t>(q);
    sum += static_cast<int32_t>(q);
  }
  return sum;
}

// Of an output feature in int8.
struct Scale {
  float scale;    // times q is the weight
  float inverse;  // times the weight, rounded, is q; 0: all q are 0
};
Scale scale_of(const SourceRow& row, int64_t k) {
  const auto [largest, finite] = range_of_feature(row, k);
  if (!finite) return {std::numeric_limits<float>::quiet_NaN(), 0};
  return largest == 0 ? Scale{0, 0} : Scale{largest / 127.0f, 127.0f / largest};
}

constexpr int64_t kBlock = 64;  // of k, so that the lines written to stay in cache

// The features of one panel, the first of which is row `first` of the parts.
void pack_panel(std::span<const MatrixView> parts, int64_t first, int64_t columns, int64_t k,
                DType dtype, std::byte* to) {
  for (int64_t begin = 0; begin < k; begin += kBlock) {
    const int64_t end = std::min(k, begin + kBlock);
    for (int64_t j = 0; j < columns; ++j) {
      const SourceRow row = find_row(parts, first + j);
      if (dtype == DType::kF32) {
        pack_f32(row, begin, end, reinterpret_cast<float*>(to) + j);
      } else {
        pack_bf16(row, begin, end, reinterpret_cast<uint16_t*>(to) + 2 * j);
      }
    }
  }
}

void pack_panel_i8(std::span<const MatrixView> parts, int64_t first, int64_t columns, int64_t k,
                   std::byte* to) {
  Scale scales[kPanelColumns];
  float* scale_of_column = reinterpret_cast<float*>(to + steps_of(k, DType::kI8) * kStepBytes);
  int32_t* offset_of_column = reinterpret_cast<int32_t*>(scale_of_column + kPanelColumns);
  for (int64_t j = 0; j < columns; ++j) {
    scales[j] = scale_of(find_row(parts, first + j), k);
    scale_of_column[j] = scales[j].scale;
  }
  for (int64_t begin = 0; begin < k; begin += kBlock) {
    const int64_t end = std::min(k, begin + kBlock);
    for (int64_t j = 0; j < columns; ++j)
      offset_of_column[j] +=
          128 * pack_i8(find_row(parts, first + j), begin, end, scales[j].inverse,
                        reinterpret_cast<int8_t*>(to) + 4 * j);
  }
}

}  // namespace

Tensor pack_weight(Context& ctx, std::span<const MatrixView> parts, DType dtype) {
  if (dtype == DType::kI4) return pack_weight_i4(ctx, parts);
  int64_t n = 0;
  for (const MatrixView& part : parts) n += part.rows;
  const int64_t k = parts[0].columns, bytes = panel_bytes(k, dtype),
                panels = ceil_div(n, kPanelColumns);
  const bool i8 = dtype == DType::kI8;
  Tensor data({panels * bytes}, DType::kU8);
  auto job = [&](int64_t panel, int) {
    std::byte* to = static_cast<std::byte*>(data.raw()) + panel * bytes;
    const int64_t first = panel * kPanelColumns;
    const int64_t columns = std::min<int64_t>(kPanelColumns, n - first);
    if (i8 || columns < kPanelColumns || k % 2 != 0) std::memset(to, 0, static_cast<size_t>(bytes));
    if (i8) {
      pack_panel_i8(parts, first, columns, k, to);
    } else {
      pack_panel(parts, first, columns, k, dtype, to);
    }
  };
  run_tasks(ctx, panels, job);
  return data;
}

}  // namespace tandem::cpu
