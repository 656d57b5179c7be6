// Weights on their way to the device: read from the mapped file and converted by the host's
// threads.
#include <algorithm>
#include <cstring>

#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

// Elements of a file to those of a weight.
void convert(const MatrixView& part, int64_t row, DType to, void* out) {
  const auto* from = static_cast<const std::byte*>(part.data) +
                     static_cast<size_t>(row * part.row_stride) * size_of(part.dtype);
  if (part.dtype == to) {
    std::memcpy(out, from, static_cast<size_t>(part.columns) * size_of(to));
    return;
  }
  for (int64_t i = 0; i < part.columns; ++i) {
    float x = 0;
    if (part.dtype == DType::kF32) {
      std::memcpy(&x, from + 4 * i, 4);
    } else {
      uint16_t bits = 0;
      std::memcpy(&bits, from + 2 * i, 2);
      x = part.dtype == DType::kBF16 ? bf16_to_float(bits) : f16_to_float(bits);
    }
    if (to == DType::kF32) {
      static_cast<float*>(out)[i] = x;
    } else if (to == DType::kBF16) {
      static_cast<uint16_t*>(out)[i] = float_to_bf16(x);
    } else {
      static_cast<uint16_t*>(out)[i] = float_to_f16(x);
    }
  }
}

}  // namespace

Tensor pack_weight(Context& ctx, std::span<const MatrixView> parts, DType dtype) {
  int64_t rows = 0;
  for (const MatrixView& part : parts) rows += part.rows;
  const int64_t columns = parts[0].columns;
  Tensor weight = ctx.backend().allocate({rows, columns}, dtype);
  if (rows * columns == 0) return weight;
  // Some megabytes at a time: converted by all threads, then on their way while the next ones are.
  const int64_t chunk = std::max<int64_t>(1, (int64_t{4} << 20) / (columns * 4));
  Tensor host({std::min(chunk, rows), columns}, dtype);
  int64_t to = 0;
  for (const MatrixView& part : parts) {
    for (int64_t row = 0; row < part.rows; row += chunk) {
      const int64_t count = std::min(chunk, part.rows - row);
      ctx.pool().run(
          count, [&](int64_t i, int) { convert(part, row + i, dtype, host.rows(i, i + 1).raw()); });
      ctx.backend().copy_in(host.rows(0, count), weight.rows(to, to + count));
      to += count;
    }
  }
  return weight;
}

}  // namespace tandem::cuda
