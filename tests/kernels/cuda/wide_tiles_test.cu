// Products of many rows by warp groups against the reference, and when they are chosen.
#include <cstdlib>
#include <limits>

#include "kernels/cuda/linear/gemm_cache.h"
#include "kernels/cuda/linear/wide_epilogue.cuh"
#include "kernels/cuda/linear/wide_tiles.h"
#include "tests/kernels/cuda/linear_product.h"
#include "tests/support/ranks/device_array.h"

namespace tandem {
namespace {
namespace wide_tiles_test {

using cuda::CudaBackend;
using cuda::WeightProduct;
using testing::check_product;
using testing::DeviceMatrix;
using testing::LinearProduct;
using testing::Random;
using testing::rounded;

constexpr DType k16Bits[] = {DType::kF16, DType::kBF16};
// (But for kRelu2: check_product's bound is for activations that are no steeper than GELU.)
constexpr Activation kOfItsOwn[] = {
    Activation::kGelu,        Activation::kGeluTanh,  Activation::kSilu,
    Activation::kQuickGelu,   Activation::kTanh,      Activation::kSigmoid,
    Activation::kClippedGelu, Activation::kHardSwish, Activation::kLaplace,
    Activation::kLeakyRelu,   Activation::kMish,      Activation::kRelu6,
    Activation::kSqrtSoftplus};

// Of a device on which it multiplies from 9 rows on.
Context context_with_wide_tiles(DType dtype) {
  setenv("TANDEM_WIDE_TILES_ROWS", "9", 1);
  setenv("TANDEM_DIRECT_ROWS", "0", 1);
  Context ctx = testing::cuda_context(dtype);
  unsetenv("TANDEM_WIDE_TILES_ROWS");
  unsetenv("TANDEM_DIRECT_ROWS");
  return ctx;
}

bool has_warp_groups() {
  Context ctx = testing::cuda_context(DType::kBF16);
  return static_cast<const CudaBackend&>(ctx.backend()).capability() / 10 == 9;
}

TEST(CudaWideTiles, MatchesTheReference) {
  Random random;
  for (const DType dtype : k16Bits) {
    Context ctx = context_with_wide_tiles(dtype);
    for (const int64_t rows : {9, 64, 191, 192, 193, 400})
      check_product(random, ctx,
                    {rows, random.pick<int64_t>({8, 64, 72, 200, 264}),
                     random.pick<int64_t>({2, 7, 120, 128, 129, 264}), 8, rows % 2 == 0,
                     rows % 3 == 0, random.pick({Activation::kGelu, Activation::kSilu})});
    // More stages than the ring has; rows that begin anywhere.
    check_product(random, ctx, {200, 520, 136, 8, true, false, Activation::kGelu});
    check_product(random, ctx, {200, 64, 136, 1, true, false, Activation::kGelu});
  }
}

TEST(CudaWideTiles, AllActivations) {
  Random random;
  for (const Activation activation : kOfItsOwn)
    for (const bool f32 : {false, true}) {
      Context ctx = context_with_wide_tiles(f32 ? DType::kF16 : DType::kBF16);
      check_product(random, ctx, {70, 72, 40, 8, true, f32, activation});
    }
}

// A block has several tiles, of which its groups take turns.
TEST(CudaWideTiles, BlocksHaveSeveralTiles) {
  if (!has_warp_groups()) GTEST_SKIP() << "no warp groups' products";
  Random random;
  Context ctx = testing::cuda_context(DType::kBF16);
  const auto run = [&](const Tensor& x, const PackedWeight& w, int64_t rows, int blocks) {
    const Tensor out = ctx.make({rows, w.out_features()}, DType::kF32);
    WeightProduct p{};
    p.x = x.raw(), p.x_stride = x.row_stride(), p.rows = rows;
    p.k = w.in_features(), p.n = w.out_features(), p.type = DType::kBF16;
    p.weight = w.data().raw(), p.pitch = w.data().dim(1) * 2;
    p.epilogue.activation = Activation::kGelu;
    p.epilogue.out = out.raw(), p.epilogue.out_stride = out.row_stride();
    EXPECT_TRUE(cuda::takes_wide_tiles(p, 90));
    EXPECT_TRUE(
        cuda::wide_tiles(p, blocks, static_cast<const CudaBackend&>(ctx.backend()).launches()));
    return ctx.on_host(out);
  };
  for (const int64_t k : {40, 72, 328}) {
    const int64_t rows = 1000, n = 300;
    const Tensor weight = random.matrix(n, k);
    const MatrixView view = testing::view_of(weight);
    const PackedWeight w(ctx, {&view, 1}, DType::kBF16);
    const DeviceMatrix x(ctx, random, rounded(random.matrix(rows, k), DType::kBF16), DType::kBF16,
                         8);
    const Tensor all = run(x.tensor(), w, rows, 132);
    for (const int blocks : {1, 2, 4})
      EXPECT_TRUE(testing::same_bits(run(x.tensor(), w, rows, blocks), all)) << k << " " << blocks;
    // A row's bits do not depend on the others, nor on their number.
    for (const int64_t count : {1, 63, 193, 500}) {
      const int64_t first = random.integer(0, rows - count);
      EXPECT_TRUE(testing::same_bits(run(x.tensor().rows(first, first + count), w, count, 3),
                                     all.rows(first, first + count)))
          << k << " " << count;
    }
  }
}

__global__ void gelu_kernel(const float* x, float* y, int count) {
  cuda::wait_for_earlier_kernels();
  for (int i = 0; i < count; ++i) y[i] = cuda::wide::smooth_gelu(x[i]);
}

TEST(CudaWideTiles, GeluWithoutBranches) {
  std::vector<float> x;
  for (float v = -12.0f; v <= 12.0f; v += 0x1p-7f) x.push_back(v);
  x.insert(x.end(), {0.0f, -0.0f, 1e30f, std::numeric_limits<float>::infinity()});
  x.push_back(std::numeric_limits<float>::quiet_NaN());
  cuda::DeviceArray<float> in(x), out(x.size());
  TANDEM_LAUNCH(gelu_kernel, 1, 1, 0, nullptr, in.get(), out.get(), static_cast<int>(x.size()));
  const std::vector<float> y = out.values();
  for (size_t i = 0; i + 1 < x.size(); ++i) {
    const double want = 0.5 * x[i] * std::erfc(-double{x[i]} / std::sqrt(2.0));
    if (std::isinf(x[i]))
      EXPECT_EQ(y[i], x[i]);
    else
      EXPECT_NEAR(y[i], want, 3e-7 + 3e-6 * std::abs(want)) << x[i];
  }
  EXPECT_TRUE(std::isnan(y.back()));
}

TEST(CudaWideTiles, TakesWhatTheLibraryLeavesToAnotherKernel) {
  alignas(16) static unsigned char memory[16];
  WeightProduct p{};
  p.x = p.weight = memory;
  p.x_stride = 64, p.rows = 600, p.k = 64, p.n = 100, p.pitch = 128;
  p.type = DType::kBF16;
  p.epilogue.activation = Activation::kGelu;
  EXPECT_TRUE(cuda::takes_wide_tiles(p, 90));
  for (const int capability : {75, 89, 100, 120})
    EXPECT_FALSE(cuda::takes_wide_tiles(p, capability));
  const auto refuses = [&](const auto& change) {
    WeightProduct other = p;
    change(other);
    return !cuda::takes_wide_tiles(other, 90);
  };
  const float scale = 1;
  EXPECT_TRUE(refuses([](auto& o) { o.type = DType::kF32; }));
  EXPECT_TRUE(refuses([](auto& o) { o.k = 60; }));
  EXPECT_TRUE(refuses([](auto& o) { o.k = 0; }));
  EXPECT_TRUE(refuses([](auto& o) { o.x_stride = 68; }));
  EXPECT_TRUE(refuses([](auto& o) { o.pitch = 136; }));
  EXPECT_TRUE(refuses([](auto& o) { o.x = memory + 2; }));
  EXPECT_TRUE(refuses([](auto& o) { o.quantization = Quantization::kInt8; }));
  EXPECT_TRUE(refuses([](auto& o) { o.epilogue.activation = Activation::kNone; }));
  EXPECT_TRUE(refuses([](auto& o) { o.epilogue.activation = Activation::kRelu; }));
  EXPECT_TRUE(refuses([&](auto& o) { o.epilogue.scales = &scale; }));
}

// Who multiplies: the library is asked for an algorithm, or it is not.
TEST(CudaWideTiles, TheVariableChooses) {
  if (!has_warp_groups()) GTEST_SKIP() << "no warp groups' products";
  Random random;
  setenv("TANDEM_WIDE_TILES_ROWS", "512", 1);
  Context ctx = testing::cuda_context(DType::kBF16);
  unsetenv("TANDEM_WIDE_TILES_ROWS");
  Context off = testing::cuda_context(DType::kBF16);
  const auto asks_library = [&](Context& of, int64_t rows, Activation activation, int64_t step) {
    cuda::GemmCache& library = static_cast<CudaBackend&>(of.backend()).gemms();
    const int64_t before = library.asked();
    check_product(random, of, {rows, 64, 72, step, true, false, activation});
    return library.asked() > before;
  };
  EXPECT_FALSE(asks_library(ctx, 512, Activation::kGelu, 8));
  EXPECT_FALSE(asks_library(ctx, 700, Activation::kSilu, 8));
  EXPECT_TRUE(asks_library(ctx, 511, Activation::kGelu, 8));
  EXPECT_TRUE(asks_library(ctx, 1400, Activation::kRelu, 8));
  EXPECT_TRUE(asks_library(ctx, 1400, Activation::kNone, 8));
  EXPECT_TRUE(asks_library(off, 700, Activation::kGelu, 8));
}

TEST(CudaWideTiles, TheVariable) {
  const auto least = [](const char* value) {
    setenv("TANDEM_WIDE_TILES_ROWS", value, 1);
    Context ctx = testing::cuda_context(DType::kBF16);
    return static_cast<const CudaBackend&>(ctx.backend()).least_wide_rows();
  };
  EXPECT_EQ(least("0"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(least("512"), 512);
  EXPECT_EQ(least("1048576"), 1048576);
  for (const char* wrong : {"", "-1", "1048577", "8x"}) EXPECT_THROW(least(wrong), InputError);
  unsetenv("TANDEM_WIDE_TILES_ROWS");
  Context ctx = testing::cuda_context(DType::kBF16);
  EXPECT_EQ(static_cast<const CudaBackend&>(ctx.backend()).least_wide_rows(),
            std::numeric_limits<int64_t>::max());
}

}  // namespace wide_tiles_test
}  // namespace
}  // namespace tandem
