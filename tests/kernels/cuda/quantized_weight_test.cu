// What is stored of a weight, against a plain quantiser.
#include "tests/kernels/cuda/quantized_util.h"

namespace tandem {
namespace {

using testing::QuantizedValues;
using testing::Random;

PackedWeight pack(Context& ctx, const Tensor& w, Quantization q) {
  const int64_t half = w.dim(0) / 2;  // in two parts, as Q, K and V are
  const Tensor parts[] = {w.rows(0, half), w.rows(half, w.dim(0))};
  const MatrixView views[] = {testing::view_of(parts[0]), testing::view_of(parts[1])};
  return PackedWeight(ctx, views, ctx.activations(), q);
}

float largest(const Tensor& w, int64_t n) {
  float out = 0;
  for (int64_t i = 0; i < w.dim(1); ++i) out = std::max(out, std::abs(w.row<float>(n)[i]));
  return out;
}

Tensor odd_weight(Random& random, int64_t n, int64_t k) {
  const Tensor w = random.strided(n, k, 0.05f);
  for (int64_t i = 0; i < n; ++i) {  // rows of very different sizes, some lopsided
    const auto size = static_cast<float>(std::ldexp(1.0, static_cast<int>(random.integer(-20, 8))));
    const bool positive = random.integer(0, 3) == 0;
    for (int64_t j = 0; j < k; ++j) {
      w.row<float>(i)[j] *= size;
      if (positive) w.row<float>(i)[j] = std::abs(w.row<float>(i)[j]);
    }
  }
  return w;
}

TEST(CudaQuantizedWeight, Int8) {
  Random random;
  Context ctx = testing::cuda_context(DType::kBF16);
  for (const int64_t k : {1, 2, 15, 64, 65, 127, 130, 300}) {
    const Tensor w = odd_weight(random, random.integer(2, 20), k);
    const QuantizedValues got(ctx, pack(ctx, w, Quantization::kInt8));
    for (int64_t n = 0; n < w.dim(0); ++n) {
      const float top = largest(w, n);
      ASSERT_EQ(got.scale(n, 0), top / 127.0f);
      for (int64_t i = 0; i < k; ++i)
        ASSERT_EQ(got.code(n, i) - 128, std::lrint(w.row<float>(n)[i] * (127.0f / top)))
            << n << ", " << i;
      for (int64_t i = k; i < got.quantized_pitch(); ++i) ASSERT_EQ(got.byte(n, i), 128);
    }
  }
}

TEST(CudaQuantizedWeight, Fp8) {
  Random random;
  Context ctx = testing::cuda_context(DType::kF16);
  for (const int64_t k : {1, 2, 15, 64, 65, 130, 300}) {
    const Tensor w = odd_weight(random, random.integer(2, 20), k);
    const QuantizedValues got(ctx, pack(ctx, w, Quantization::kFp8));
    for (int64_t n = 0; n < w.dim(0); ++n) {
      const float top = largest(w, n);
      ASSERT_EQ(got.scale(n, 0), top / 448.0f);
      for (int64_t i = 0; i < k; ++i)
        ASSERT_EQ(got.code(n, i), testing::nearest_e4m3(w.row<float>(n)[i] * (448.0f / top)))
            << n << ", " << i << ": " << w.row<float>(n)[i] * (448.0f / top);
      for (int64_t i = k; i < got.quantized_pitch(); ++i) ASSERT_EQ(got.byte(n, i), 0);
    }
  }
}

// Every value of e4m3, and what lies in the middle of two.
TEST(CudaQuantizedWeight, Fp8Ties) {
  Context ctx = testing::cuda_context(DType::kF32);
  const Tensor w({2, 500}, DType::kF32);
  for (int64_t i = 0; i < 500; ++i) {
    const auto code = static_cast<uint8_t>(i / 2 % 126 + (i >= 252 ? 128 : 0));
    const double next = testing::e4m3_value(static_cast<uint8_t>(code + 1));
    const double x = testing::e4m3_value(code);
    for (int64_t n = 0; n < 2; ++n)
      w.row<float>(n)[i] = static_cast<float>(i % 2 == 0 ? x : (x + next) / 2);
  }
  w.row<float>(0)[0] = w.row<float>(1)[0] = 448.0f;  // a scale of one
  const QuantizedValues got(ctx, pack(ctx, w, Quantization::kFp8));
  ASSERT_EQ(got.scale(0, 0), 1.0f);
  for (int64_t i = 0; i < 500; ++i)
    EXPECT_EQ(got.code(1, i), testing::nearest_e4m3(w.row<float>(1)[i])) << w.row<float>(1)[i];
}

// Every element is the nearest that its group's scale and zero allow, and a group's squared error
// is not above that of the plain choice, all of its range.
TEST(CudaQuantizedWeight, Int4) {
  Random random;
  Context ctx = testing::cuda_context(DType::kBF16);
  double error_of_all = 0, plain_error_of_all = 0;
  for (const int64_t k : {1, 2, 7, 64, 127, 128, 129, 257, 400}) {
    const Tensor w = odd_weight(random, random.integer(2, 12), k);
    const QuantizedValues got(ctx, pack(ctx, w, Quantization::kInt4));
    for (int64_t n = 0; n < w.dim(0); ++n)
      for (int64_t first = 0; first < k; first += 128) {
        const float* row = w.row<float>(n);
        const int64_t end = std::min<int64_t>(k, first + 128);
        double low = 0, high = 0, error = 0, plain_error = 0;
        for (int64_t i = first; i < end; ++i) {
          low = std::min<double>(low, row[i]);
          high = std::max<double>(high, row[i]);
        }
        const double scale = (high - low) / 15, zero = std::nearbyint(-low / scale);
        for (int64_t i = first; i < end; ++i) {
          const double s = got.scale(n, i), distance = std::abs(got.value(n, i) - row[i]);
          for (int q = 0; q < 16; ++q)
            ASSERT_LE(distance, std::abs(s * (q - got.zero(n, i)) - row[i]) + 1e-5 * s);
          const double q = std::clamp(std::nearbyint(row[i] / scale) + zero, 0.0, 15.0);
          error += distance * distance;
          plain_error += std::pow(scale * (q - zero) - row[i], 2);
        }
        ASSERT_LE(error, plain_error * 1.001 + 1e-9 * std::pow(high - low, 2))
            << n << ", " << first;
        error_of_all += error / (scale * scale);
        plain_error_of_all += plain_error / (scale * scale);
      }
  }
  EXPECT_LT(error_of_all, 0.98 * plain_error_of_all);  // some ranges are better shortened
}

TEST(CudaQuantizedWeight, StrangeRows) {
  Random random;
  Context ctx = testing::cuda_context(DType::kF32);
  for (const Quantization q : {Quantization::kInt8, Quantization::kInt4, Quantization::kFp8}) {
    const Tensor w = random.matrix(5, 200);
    w.row<float>(0)[150] = std::numeric_limits<float>::quiet_NaN();
    w.row<float>(1)[3] = -std::numeric_limits<float>::infinity();
    std::fill_n(w.row<float>(2), 200, 0.0f);
    std::fill_n(w.row<float>(3), 200, 1e-35f);
    const PackedWeight packed = pack(ctx, w, q);
    const Tensor x = random.matrix(3, 200), out = ctx.make({3, 5}, DType::kF32);
    ops::linear(ctx, {&packed, testing::to_device(ctx, x), {}, Activation::kNone, out});
    const Tensor got = ctx.on_host(out);
    for (int64_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(std::isnan(got.row<float>(i)[0])) << name_of(q);
      EXPECT_TRUE(std::isnan(got.row<float>(i)[1])) << name_of(q);
      EXPECT_EQ(got.row<float>(i)[2], 0.0f) << name_of(q);
      EXPECT_EQ(got.row<float>(i)[3], 0.0f) << name_of(q);
      EXPECT_TRUE(std::isfinite(got.row<float>(i)[4])) << name_of(q);
    }
  }
}

// 16-bit files, and what a weight takes.
TEST(CudaQuantizedWeight, FilesAndBytes) {
  Random random;
  Context ctx = testing::cuda_context(DType::kF16);
  const Tensor w = random.matrix(32, 256);
  const Tensor bf16 = testing::to_bf16(w), rounded = testing::rounded(w, DType::kBF16);
  const MatrixView narrow = testing::view_of(bf16), wide = testing::view_of(rounded);
  const std::pair<Quantization, size_t> sizes[] = {{Quantization::kInt8, 32 * 256 + 32 * 4},
                                                   {Quantization::kFp8, 32 * 256 + 32 * 4},
                                                   {Quantization::kInt4, 32 * 128 + 32 * 2 * 4}};
  for (const auto& [q, bytes] : sizes) {
    const PackedWeight a(ctx, {&narrow, 1}, DType::kF16, q), b(ctx, {&wide, 1}, DType::kF16, q);
    EXPECT_EQ(a.bytes(), bytes);
    EXPECT_TRUE(testing::same_bits(QuantizedValues(ctx, a).all(), QuantizedValues(ctx, b).all()));
  }
}

}  // namespace
}  // namespace tandem
