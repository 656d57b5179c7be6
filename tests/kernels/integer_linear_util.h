// What the tests of linear layers in int8 and in int4 share: rows of x in int8, naive products of
// them, weights of several types in one.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/kernels_test_util.h"

namespace tandem::testing {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline Tensor run_linear(Context& ctx, const PackedWeight& w, const Tensor& x, const Tensor& bias,
                         Activation activation = Activation::kNone) {
  Tensor out({x.dim(0), w.out_features()}, DType::kF32);
  ops::linear(ctx, {&w, x, bias, activation, out});
  return out;
}

// A row (of x, or of a weight in int8) as kernels/ops.h has it.
struct QuantisedRow {
  std::vector<int> q;
  float scale;
};
inline QuantisedRow quantise_row(const float* x, int64_t k) {
  QuantisedRow out{std::vector<int>(static_cast<size_t>(k)), 0};
  float largest = 0;
  for (int64_t i = 0; i < k; ++i) {
    if (!std::isfinite(x[i])) {
      out.scale = kNan;
      return out;
    }
    largest = std::max(largest, std::abs(x[i]));
  }
  if (largest < 1e-30f) return out;
  out.scale = largest / 127.0f;
  const float inverse = 127.0f / largest;
  for (int64_t i = 0; i < k; ++i)
    out.q[static_cast<size_t>(i)] = static_cast<int>(std::nearbyint(x[i] * inverse));
  return out;
}

// weight(n, k): an integer; scale(n): of the feature.
template <class Weight, class Scale>
Tensor integer_product(const Tensor& x, int64_t features, const Weight& weight, const Scale& scale,
                       const Tensor& bias) {
  const int64_t k = x.dim(1);
  Tensor out({x.dim(0), features}, DType::kF32);
  for (int64_t t = 0; t < x.dim(0); ++t) {
    const QuantisedRow row = quantise_row(x.row<float>(t), k);
    for (int64_t n = 0; n < features; ++n) {
      int64_t sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += int64_t{row.q[static_cast<size_t>(i)]} * weight(n, i);
      float y = static_cast<float>(sum) * scale(n) * row.scale;
      if (!bias.empty()) y += bias.data<float>()[n];
      out.row<float>(t)[n] = y;
    }
  }
  return out;
}

// `want` with an activation.
inline void activate_all(const Tensor& want, Activation activation) {
  for (int64_t i = 0; i < want.size(); ++i)
    want.data<float>()[i] =
        static_cast<float>(reference::activate(activation, want.data<float>()[i]));
}

// NaN in that row and that feature; all else as before.
inline void expect_nan_there_only(const Tensor& y, const Tensor& before, int64_t row,
                                  int64_t feature) {
  for (int64_t t = 0; t < y.dim(0); ++t)
    for (int64_t n = 0; n < y.dim(1); ++n)
      if (t == row || n == feature) {
        EXPECT_TRUE(std::isnan(y.row<float>(t)[n])) << t << " " << n;
      } else {
        EXPECT_EQ(y.row<float>(t)[n], before.row<float>(t)[n]) << t << " " << n;
      }
}

// 129 features of k inputs in three types, and all of them in f32.
struct MixedParts {
  Tensor a, half, b, all;
  std::vector<MatrixView> views() const { return {view_of(a), view_of(half), view_of(b)}; }
};
inline MixedParts mixed_parts(Random& random, int64_t k) {
  MixedParts p{random.matrix(50, k), Tensor({9, k}, DType::kF16), to_bf16(random.matrix(70, k)),
               Tensor({129, k}, DType::kF32)};
  for (int64_t i = 0; i < p.half.size(); ++i)
    static_cast<uint16_t*>(p.half.raw())[i] =
        static_cast<uint16_t>(random.integer(0x2000, 0x4000) | (random.integer(0, 1) << 15));
  for (int64_t j = 0; j < k; ++j) {
    for (int64_t i = 0; i < 50; ++i) p.all.row<float>(i)[j] = p.a.row<float>(i)[j];
    for (int64_t i = 0; i < 9; ++i)
      p.all.row<float>(50 + i)[j] = f16_to_float(static_cast<uint16_t*>(p.half.raw())[i * k + j]);
    for (int64_t i = 0; i < 70; ++i)
      p.all.row<float>(59 + i)[j] = bf16_to_float(p.b.row<uint16_t>(i)[j]);
  }
  return p;
}

}  // namespace tandem::testing
