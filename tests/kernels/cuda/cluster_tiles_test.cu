// Products by clusters against the reference, and rows of products that must not depend on others.
#include <cstdlib>

#include "kernels/cuda/linear/cluster_tiles.h"
#include "tests/kernels/cuda/linear_product.h"

namespace tandem {
namespace {

using testing::check_product;
using testing::DeviceMatrix;
using testing::kActivations;
using testing::Random;
using testing::rounded;

constexpr DType k16Bits[] = {DType::kF16, DType::kBF16};

Context invariant_context(DType dtype) {
  Context ctx = testing::cuda_context(dtype);
  ctx.backend().be_batch_invariant();
  return ctx;
}

testing::LinearProduct some_product(Random& random, int64_t rows, int64_t in, int64_t out) {
  return {rows,
          in,
          out,
          8,
          random.integer(0, 2) > 0,
          random.integer(0, 2) == 0,
          random.pick({Activation::kNone, Activation::kRelu, Activation::kGelu})};
}

TEST(CudaClusterTiles, MatchesTheReference) {
  Random random;
  for (const DType dtype : k16Bits) {
    Context ctx = testing::context_with_rows("TANDEM_CLUSTER_ROWS", dtype);
    for (const int64_t rows : {9, 16, 17, 32, 40, 64, 65, 128})
      for (int round = 0; round < 3; ++round)
        check_product(
            random, ctx,
            some_product(random, rows, random.pick<int64_t>({8, 24, 72, 200, 264, 520, 1032}),
                         random.pick<int64_t>({1, 7, 33, 64, 72, 130})));
    // More weights than the ring holds.
    check_product(random, ctx, some_product(random, 20, 4104, 17));
    check_product(random, ctx, some_product(random, 33, 520, 2050));
  }
}

TEST(CudaClusterTiles, PartsFillALargeDevice) {
  const auto parts = [](int64_t n, int64_t k) { return cuda::cluster_parts(n, k, 90); };
  EXPECT_EQ(parts(1024, 1024), 8);
  EXPECT_EQ(parts(3072, 1024), 4);
  EXPECT_EQ(parts(4096, 1024), 4);
  EXPECT_EQ(parts(1024, 4096), 8);
  EXPECT_EQ(parts(50265, 1024), 1);
  EXPECT_EQ(parts(64, 64), 1);
  EXPECT_EQ(parts(64, 256), 2);  // two steps each
  EXPECT_EQ(cuda::cluster_parts(1024, 1024, 89), 1);
}

TEST(CudaClusterTiles, TheNumberOfRowsIsChecked) {
  testing::expect_rows_are_checked("TANDEM_CLUSTER_ROWS");
}

// Some rows of a batch have the bits that they have alone.
void check_rows(Random& random, Context& ctx, Quantization q, int64_t in, int64_t out) {
  constexpr int64_t kRows = 300;
  const DType dtype = ctx.activations();
  const Tensor w = random.matrix(out, in);
  const MatrixView view = testing::view_of(w);
  const PackedWeight packed(ctx, {&view, 1}, dtype, q);
  const DeviceMatrix x(ctx, random, rounded(random.matrix(kRows, in), dtype), dtype,
                       in % 8 == 0 ? 8 : 1);
  const auto run = [&](int64_t first, int64_t rows) {
    const Tensor to = ctx.make({rows, out}, DType::kF32);
    ops::linear(ctx, {&packed, x.tensor().rows(first, first + rows), {}, Activation::kGelu, to});
    return ctx.on_host(to);
  };
  const Tensor all = run(0, kRows);
  for (const int64_t rows : {1, 3, 8, 9, 40, 100, 257}) {
    const int64_t first = random.integer(0, kRows - rows);
    EXPECT_TRUE(testing::same_bits(run(first, rows), all.rows(first, first + rows)))
        << name_of(q) << " " << name_of(dtype) << " " << rows << " x " << in << " x " << out;
  }
}

// In whatever types weights and activations are, and though vectors do not fit the input.
TEST(CudaBatchInvariant, RowsDoNotDependOnOthers) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = invariant_context(dtype);
    for (const Quantization q : {Quantization::kNone, Quantization::kInt8, Quantization::kInt4,
                                 Quantization::kFp8, Quantization::kFp8Inputs}) {
      check_rows(random, ctx, q, 528, 80);
      check_rows(random, ctx, q, 261, 24);
    }
  }
}

#if defined(TANDEM_CUDA_EMULATED)
TEST(CudaBatchInvariant, OnOlderDevices) {
  Random random;
  for (const char* capability : {"7.5", "8.6"}) {
    setenv("TANDEM_EMULATOR_CAPABILITY", capability, 1);
    Context ctx = invariant_context(DType::kF16);
    unsetenv("TANDEM_EMULATOR_CAPABILITY");
    for (const Quantization q : {Quantization::kNone, Quantization::kInt8})
      check_rows(random, ctx, q, 528, 80);
    for (const int64_t rows : {5, 130})
      check_product(random, ctx, some_product(random, rows, 264, 72));
  }
}
#endif

// They are the products that others compute, to rounding.
TEST(CudaBatchInvariant, MatchesTheReference) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = invariant_context(dtype);
    for (int round = 0; round < 12; ++round)
      check_product(random, ctx,
                    some_product(random, random.pick<int64_t>({1, 5, 20, 130, 260}),
                                 random.pick<int64_t>({8, 72, 264, 1032}),
                                 random.pick<int64_t>({1, 24, 72, 130})));
  }
}

// The head of greedy rows stores its logits: its kernels of few rows and of more add differently.
TEST(CudaBatchInvariant, NoHeadWithoutLogits) {
  Random random;
  const Tensor w = random.matrix(64, 64);
  const MatrixView view = testing::view_of(w);
  for (const bool invariant : {false, true}) {
    Context ctx = invariant ? invariant_context(DType::kBF16) : testing::cuda_context(DType::kBF16);
    const PackedWeight packed(ctx, {&view, 1}, DType::kBF16);
    EXPECT_EQ(ctx.backend().most_best_rows(packed) == 0, invariant);
  }
}

}  // namespace
}  // namespace tandem
