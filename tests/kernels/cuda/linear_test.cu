// linear of the CUDA device against the reference: all types, biases, activations, f32 results of
// 16-bit products, rows that lie apart.
#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "kernels/cuda/linear/gemm_cache.h"
#include "kernels/cuda/ops_cuda.h"
#include "tests/kernels/cuda/linear_product.h"

namespace tandem {
namespace {

using testing::check_product;
using testing::DeviceMatrix;
using testing::kActivations;
using testing::near;
using testing::Random;
using testing::rounded;

// Products that cuBLASLt has left to our own kernel.
int64_t refused(Context& ctx) {
  return static_cast<cuda::CudaBackend&>(ctx.backend()).gemms().refused();
}

TEST(CudaLinear, MatchesTheReference) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (int round = 0; round < 40; ++round) {
      const auto size = [&] { return random.pick<int64_t>({8, 16, 56, 64, 72, 128, 200, 256}); };
      check_product(random, ctx,
                    {random.pick<int64_t>({1, 2, 3, 8, 17, 33, 64, 100}), size(), size(), 8,
                     random.integer(0, 2) > 0, random.integer(0, 2) == 0,
                     random.pick({Activation::kNone, Activation::kRelu, Activation::kGelu,
                                  Activation::kGeluTanh, Activation::kSilu})});
    }
    EXPECT_EQ(refused(ctx), 0) << name_of(dtype);
  }
}

// Sizes that are no multiples of anything: narrow heads, small vocabularies.
TEST(CudaLinear, OddSizes) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (int round = 0; round < 20; ++round) {
      const auto size = [&] { return random.pick<int64_t>({1, 2, 3, 7, 15, 17, 63, 65, 130}); };
      check_product(random, ctx,
                    {random.pick<int64_t>({1, 3, 16, 50}), size(), size(), 1,
                     random.integer(0, 2) > 0, random.integer(0, 2) == 0,
                     random.pick({Activation::kNone, Activation::kRelu, Activation::kGelu})});
    }
  }
}

// Products of some rows that direct_tiles takes, of all shapes that its blocks have.
Context direct_context(DType dtype) {
  return testing::context_with_rows("TANDEM_DIRECT_ROWS", dtype);
}

TEST(CudaLinear, DirectTiles) {
  Random random;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Context ctx = direct_context(dtype);
    for (const int64_t rows : {9, 16, 17, 32, 33, 64, 70, 128}) {
      const auto in = [&] { return random.pick<int64_t>({8, 24, 40, 72, 256, 264, 1000}); };
      for (const int64_t out : {1, 16, 33, 130})
        check_product(random, ctx,
                      {rows, in(), out, 8, random.integer(0, 2) > 0, random.integer(0, 2) == 0,
                       random.pick({Activation::kNone, Activation::kRelu, Activation::kGelu})});
    }
    for (const int64_t rows : {9, 20, 40})  // many features
      check_product(random, ctx, {rows, 40, 2050, 8, true, false, Activation::kGelu});
    check_product(random, ctx, {35, 8, 16390, 8, false, true, Activation::kNone});
    for (const int64_t rows : {10, 30, 66})  // long rows
      check_product(random, ctx, {rows, 4104, 17, 8, true, false, Activation::kNone});
  }
}

TEST(CudaLinear, WhichProductsAreDirect) {
  const auto rows = [](int64_t n, Activation activation) {
    Context ctx = testing::cuda_context(DType::kBF16);
    cuda::WeightProduct p{};
    p.n = n;
    p.epilogue.activation = activation;
    return static_cast<cuda::CudaBackend&>(ctx.backend()).most_direct_rows(p);
  };
  EXPECT_EQ(rows(50265, Activation::kNone), 128);
  EXPECT_EQ(rows(1024, Activation::kNone), 32);
  EXPECT_EQ(rows(4096, Activation::kGelu), 32);
  EXPECT_EQ(rows(4096, Activation::kRelu), 0);
  setenv("TANDEM_DIRECT_ROWS", "7", 1);
  EXPECT_EQ(rows(4096, Activation::kRelu), 7);
  testing::expect_rows_are_checked("TANDEM_DIRECT_ROWS");
}

TEST(CudaLinear, RowsOfDirectTilesDoNotDependOnOthers) {
  Random random;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    Context ctx = direct_context(dtype);
    for (const auto& [in, out] :
         {std::pair<int64_t, int64_t>{136, 72}, {1032, 24}, {4104, 16}, {24, 2064}}) {
      const Tensor w = rounded(random.matrix(out, in), dtype);
      const MatrixView view = testing::view_of(w);
      const PackedWeight packed(ctx, {&view, 1}, dtype);
      const DeviceMatrix x(ctx, random, rounded(random.matrix(128, in), dtype), dtype, 8);
      const auto run = [&](int64_t rows) {
        const DeviceMatrix to(ctx, random, rows, out, dtype, 8);
        ops::linear(ctx,
                    {&packed, x.tensor().rows(0, rows), Tensor(), Activation::kNone, to.tensor()});
        return to.values();
      };
      const Tensor all = run(128);
      for (const int64_t rows : {9, 16, 30, 40, 100})
        EXPECT_TRUE(testing::same_bits(run(rows), all.rows(0, rows)))
            << name_of(dtype) << " " << rows << " x " << in << " x " << out;
    }
  }
}

// Launched before the kernels in front of it have ended: weights are asked for before the wait.
TEST(CudaLinear, DependentLaunches) {
  Random random;
  const char* given = std::getenv("TANDEM_DEPENDENT_LAUNCH");
  const std::string before = given != nullptr ? given : "0";
  for (const std::string wanted : {"1", "0", "few", before.c_str()}) {
    setenv("TANDEM_DEPENDENT_LAUNCH", wanted.c_str(), 1);
    Context ctx = testing::cuda_context(DType::kBF16);
    const bool hopper = static_cast<cuda::CudaBackend&>(ctx.backend()).capability() >= 90;
    EXPECT_EQ(cuda::stream_of(ctx).overlaps, hopper && wanted == "1");
    ctx.backend().expect_rows(33);
    EXPECT_EQ(cuda::stream_of(ctx).overlaps, hopper && wanted == "1");
    ctx.backend().expect_rows(32);
    EXPECT_EQ(cuda::stream_of(ctx).overlaps, hopper && wanted != "0");
    ctx.backend().begin_step();
    EXPECT_EQ(cuda::stream_of(ctx).overlaps, hopper && wanted == "1");
    for (const int64_t rows : {1, 3, 8, 20})
      for (const int64_t out : {2, 7, 72})
        check_product(random, ctx, {rows, 200, out, 8, true, false, Activation::kGelu});
    ctx.backend().synchronize();
  }
}

// Each backend as the environment was when it was made, whatever others do.
TEST(CudaLinear, DependentLaunchesAreABackendsOwn) {
  const char* given = std::getenv("TANDEM_DEPENDENT_LAUNCH");
  const std::string before = given != nullptr ? given : "0";
  setenv("TANDEM_DEPENDENT_LAUNCH", "1", 1);
  Context first = testing::cuda_context(DType::kBF16);
  setenv("TANDEM_DEPENDENT_LAUNCH", "0", 1);
  Context second = testing::cuda_context(DType::kBF16);
  setenv("TANDEM_DEPENDENT_LAUNCH", before.c_str(), 1);
  const bool hopper = static_cast<cuda::CudaBackend&>(first.backend()).capability() >= 90;
  EXPECT_EQ(cuda::stream_of(first).overlaps, hopper);
  EXPECT_FALSE(cuda::stream_of(second).overlaps);
}

#if defined(TANDEM_CUDA_EMULATED)
TEST(CudaLinear, WithoutTheLibrary) {
  setenv("TANDEM_EMULATOR_NO_PRODUCTS", "1", 1);
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const bool f32 : {false, true})
      check_product(random, ctx, {random.integer(9, 40), 33, 17, 1, true, f32, Activation::kRelu});
    check_product(random, ctx, {9, 1, 1, 1, false, false, Activation::kGelu});
    EXPECT_EQ(refused(ctx), 3);
  }
  unsetenv("TANDEM_EMULATOR_NO_PRODUCTS");
}
#endif

// BART-large's sizes, and its vocabulary.
TEST(CudaLinear, ModelSizes) {
  Random random;
  Context ctx = testing::cuda_context(DType::kBF16);
  check_product(random, ctx, {2, 1024, 512, 8, true, false, Activation::kGelu});
  check_product(random, ctx, {3, 128, 4096, 8, true, false, Activation::kGelu});
  check_product(random, ctx, {1, 64, 50265, 8, true, true, Activation::kNone});
}

// Contiguous, of that type.
Tensor there(Context& ctx, const Tensor& values, DType dtype) {
  std::vector<std::byte> bytes =
      testing::to_type({values.data<float>(), static_cast<size_t>(values.size())}, dtype);
  return testing::to_device(ctx, Tensor::borrow(bytes.data(), values.shape(), dtype));
}

// Of few rows: the same bits for any number of them, for few features and many, and whether vectors
// fit the input or not.
TEST(CudaLinear, FewRowsDoNotDependOnOthers) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{80, 1304}, {80, 1301}, {2104, 648}}) {
      const Tensor x = rounded(random.matrix(8, k), dtype), w = random.matrix(n, k);
      const MatrixView view = testing::view_of(w);
      const PackedWeight packed(ctx, {&view, 1}, dtype);
      const Tensor aligned = DeviceMatrix(ctx, random, x, dtype, 8).tensor();
      const Tensor wide({8, k + 1}, DType::kF32);
      for (int64_t i = 0; i < 8; ++i) std::copy_n(x.row<float>(i), k, wide.row<float>(i) + 1);
      const Tensor odd = there(ctx, wide, dtype).columns(1, k + 1);
      Tensor all;
      for (const int64_t rows : {8, 6, 5, 4, 3, 2, 1})
        for (const Tensor& input : {aligned, odd}) {
          const Tensor out = ctx.make({rows, n}, DType::kF32);
          ops::linear(ctx, {&packed, input.rows(0, rows), {}, Activation::kNone, out});
          const Tensor got = ctx.on_host(out);
          if (all.empty()) all = got;
          EXPECT_TRUE(testing::same_bits(got, all.rows(0, rows)))
              << name_of(dtype) << " " << rows << " x " << k << " x " << n;
        }
    }
  }
}

}  // namespace
}  // namespace tandem
