// Quantised weights as a test sees them: read back from the device and decoded one by one, by the
// description in kernels/cuda/linear/quantized_weight.h.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cuda/linear/quantized_weight.h"
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem::testing {

// All values of e4m3 (OCP OFP8): bias 7, subnormals, no infinities; 0x7f and 0xff are NaN.
inline double e4m3_value(uint8_t bits) {
  if ((bits & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return bits & 0x80 ? -size : size;
}

// The nearest value to x, of two equally near ones that with the even code.
inline uint8_t nearest_e4m3(double x) {
  uint8_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int code = 0; code < 256; ++code) {
    const auto bits = static_cast<uint8_t>(code);
    const double distance = std::abs(e4m3_value(bits) - x);
    if (std::isnan(distance) || (bits & 0x80) != (std::signbit(x) ? 0x80 : 0)) continue;
    if (distance < least || (distance == least && bits % 2 == 0)) {
      least = distance;
      best = bits;
    }
  }
  return best;
}

struct QuantizedValues {
  Tensor data, scales;  // on the host
  Quantization kind;
  int64_t k;

  QuantizedValues(Context& ctx, const PackedWeight& w)
      : data(ctx.on_host(w.data())),
        scales(ctx.on_host(w.scales())),
        kind(w.quantization()),
        k(w.in_features()) {}

  uint8_t byte(int64_t n, int64_t at) const {
    return data.data<uint8_t>()[n * quantized_pitch() + at];
  }
  int64_t quantized_pitch() const { return cuda::quantized_pitch(kind, k); }
  // What is stored, of int4 0 to 15.
  int code(int64_t n, int64_t i) const {
    if (kind != Quantization::kInt4) return byte(n, i);
    const int bit = static_cast<int>(i % 8) / 2 * 4 + static_cast<int>(i % 2) * 16;
    return byte(n, i / 8 * 4 + bit / 8) >> (bit % 8) & 15;
  }
  float scale(int64_t n, int64_t i) const {
    if (kind != Quantization::kInt4) return scales.data<float>()[n];
    const uint32_t bits = stored_scale(n, i);
    return std::bit_cast<float>(bits & ~15u);
  }
  int zero(int64_t n, int64_t i) const { return static_cast<int>(stored_scale(n, i) & 15u); }
  uint32_t stored_scale(int64_t n, int64_t i) const {
    return std::bit_cast<uint32_t>(
        scales.data<float>()[n * cuda::quantized_groups(k) + i / cuda::kQuantizedGroup]);
  }
  double value(int64_t n, int64_t i) const {
    const double s = scale(n, i);
    switch (kind) {
      case Quantization::kInt8: return s * (code(n, i) - 128);
      case Quantization::kInt4: return s * (code(n, i) - zero(n, i));
      default: return s * e4m3_value(static_cast<uint8_t>(code(n, i)));
    }
  }
  Tensor all() const {
    const int64_t rows = kind == Quantization::kInt4 ? scales.dim(0) : scales.size();
    const Tensor out({rows, k}, DType::kF32);
    for (int64_t n = 0; n < rows; ++n)
      for (int64_t i = 0; i < k; ++i) out.row<float>(n)[i] = static_cast<float>(value(n, i));
    return out;
  }
};

}  // namespace tandem::testing
