// Weights on their way to the device: read from the mapped file and converted by the host's
// threads, piece by piece, while the device copies the piece before.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

// Elements [column, column + count) of a row of a file to those of a weight.
void convert(const MatrixView& part, int64_t row, int64_t column, int64_t count, DType to,
             std::byte* out) {
  const auto* from = static_cast<const std::byte*>(part.data) +
                     static_cast<size_t>(row * part.row_stride + column) * size_of(part.dtype);
  if (part.dtype == to) {
    std::memcpy(out, from, static_cast<size_t>(count) * size_of(to));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    float x = 0;
    if (part.dtype == DType::kF32) {
      std::memcpy(&x, from + 4 * i, 4);
    } else {
      uint16_t bits = 0;
      std::memcpy(&bits, from + 2 * i, 2);
      x = part.dtype == DType::kBF16 ? bf16_to_float(bits) : f16_to_float(bits);
    }
    if (to == DType::kF32) {
      reinterpret_cast<float*>(out)[i] = x;
    } else if (to == DType::kBF16) {
      reinterpret_cast<uint16_t*>(out)[i] = float_to_bf16(x);
    } else {
      reinterpret_cast<uint16_t*>(out)[i] = float_to_f16(x);
    }
  }
}

}  // namespace

Tensor pack_weight(Context& ctx, std::span<const MatrixView> parts, DType dtype) {
  std::vector<int64_t> ends;  // of the parts, in rows of the weight
  int64_t rows = 0;
  for (const MatrixView& part : parts) ends.push_back(rows += part.rows);
  const int64_t columns = parts[0].columns;
  Tensor weight = ctx.backend().allocate({rows, columns}, dtype);
  if (rows * columns == 0) return weight;
  const auto element = static_cast<int64_t>(size_of(dtype));
  ctx.backend().load(weight, ctx.pool(), [&](size_t begin, size_t bytes, std::byte* to) {
    int64_t at = static_cast<int64_t>(begin) / element;
    for (int64_t left = static_cast<int64_t>(bytes) / element; left > 0;) {
      const int64_t row = at / columns, column = at % columns;
      const int64_t count = std::min(left, columns - column);
      const auto part = static_cast<size_t>(std::ranges::upper_bound(ends, row) - ends.begin());
      convert(parts[part], row - (ends[part] - parts[part].rows), column, count, dtype, to);
      at += count;
      left -= count;
      to += count * element;
    }
  });
  return weight;
}

}  // namespace tandem::cuda
