// Which kernels multiply a weight, and how tiles share the steps along k. (Host code: no GPU.)
#include "kernels/cuda/linear/weight_path.h"

#include <gtest/gtest.h>

#include "kernels/cuda/linear/quantized_weight.h"

namespace tandem::cuda {
namespace {

constexpr Quantization kQuantised[] = {Quantization::kInt8, Quantization::kInt4,
                                       Quantization::kFp8};

WeightPath path(int64_t rows, Quantization q, DType type = DType::kBF16, int capability = 90,
                bool aligned = true, int64_t n = 1024, int64_t k = 1024) {
  return weight_path({rows, n, k, type, q, aligned, capability});
}

TEST(WeightPath, ByRows) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
    EXPECT_EQ(path(1, Quantization::kNone, type), WeightPath::kRows);
    EXPECT_EQ(path(8, Quantization::kNone, type), WeightPath::kRows);
    EXPECT_EQ(path(9, Quantization::kNone, type), WeightPath::kProduct);
  }
  for (const Quantization q : kQuantised) {
    EXPECT_EQ(path(4, q), WeightPath::kRows);
    EXPECT_EQ(path(5, q), WeightPath::kTiles);
    EXPECT_EQ(path(256, q), WeightPath::kTiles);
    EXPECT_EQ(path(257, q), WeightPath::kProduct);
  }
}

TEST(WeightPath, WithoutTensorCores) {
  for (const Quantization q : kQuantised) {
    const WeightPath few[] = {path(24, q, DType::kF16, 75), path(24, q, DType::kF32),
                              path(24, q, DType::kBF16, 90, false),
                              path(24, q, DType::kBF16, 90, true, 1024, 1023)};
    for (const WeightPath p : few) EXPECT_EQ(p, WeightPath::kRows);
    EXPECT_EQ(path(25, q, DType::kF16, 75), WeightPath::kProduct);
    EXPECT_EQ(path(25, q, DType::kF32), WeightPath::kProduct);
  }
}

// Inputs in e4m3: by the device, the type and the sizes, never by the rows.
TEST(WeightPath, Fp8Inputs) {
  constexpr auto q = Quantization::kFp8Inputs;
  for (const int64_t rows : {1, 5, 100, 10000}) {
    EXPECT_EQ(path(rows, q), WeightPath::kFp8Product);
    EXPECT_EQ(path(rows, q, DType::kF16, 89, false), WeightPath::kFp8Product);
    for (const WeightPath p : {path(rows, q, DType::kBF16, 80), path(rows, q, DType::kF32),
                               path(rows, q, DType::kBF16, 90, true, 1000),
                               path(rows, q, DType::kBF16, 90, true, 1024, 72)})
      EXPECT_NE(p, WeightPath::kFp8Product);
    for (const Quantization other : kQuantised)
      EXPECT_NE(path(rows, other), WeightPath::kFp8Product);
  }
}

TEST(WeightPath, OneForAnyRowsIfTheyMustNotDependOnOthers) {
  const auto invariant = [](int64_t rows, Quantization q, DType type) {
    return weight_path({rows, 1024, 1024, type, q, true, 90, /*batch_invariant=*/true});
  };
  for (const int64_t rows : {1, 5, 9, 300, 10000}) {
    EXPECT_EQ(invariant(rows, Quantization::kNone, DType::kBF16), WeightPath::kProduct);
    for (const Quantization q :
         {Quantization::kInt8, Quantization::kInt4, Quantization::kFp8, Quantization::kFp8Inputs}) {
      EXPECT_EQ(invariant(rows, q, DType::kBF16), WeightPath::kTiles);
      EXPECT_EQ(invariant(rows, q, DType::kF32), WeightPath::kRows);
    }
  }
}

TEST(WeightPath, PartsOfTiles) {
  // BART-large: out of attention, fc1, fc2, Q, K and V.
  EXPECT_EQ(tile_parts(1024, quantized_pitch(Quantization::kInt8, 1024)), 4);
  EXPECT_EQ(tile_parts(4096, quantized_pitch(Quantization::kInt8, 1024)), 2);
  EXPECT_EQ(tile_parts(1024, quantized_pitch(Quantization::kInt8, 4096)), 8);
  EXPECT_EQ(tile_parts(3072, quantized_pitch(Quantization::kInt4, 1024)), 2);
  EXPECT_EQ(tile_parts(50265, quantized_pitch(Quantization::kInt8, 1024)), 1);
  for (int64_t n = 1; n < 3000; n += 37)
    for (int64_t k = 1; k < 9000; k += 211)
      for (const Quantization q : kQuantised) {
        const int64_t pitch = quantized_pitch(q, k), steps = tile_steps(pitch);
        const int parts = tile_parts(n, pitch);
        ASSERT_GE(parts, 1);
        ASSERT_TRUE(parts == 1 || steps / parts >= 4) << n << " " << k;
        ASSERT_EQ(pitch % kTileStepBytes, 0);
        ASSERT_GE(pitch * (q == Quantization::kInt4 ? 2 : 1), k);
      }
}

TEST(WeightPath, Tokens) {
  EXPECT_EQ(tile_tokens(1), 16);
  EXPECT_EQ(tile_tokens(16), 16);
  EXPECT_EQ(tile_tokens(17), 32);
  EXPECT_EQ(tile_tokens(33), 64);
  EXPECT_EQ(tile_tokens(1000), 64);
}

}  // namespace
}  // namespace tandem::cuda
