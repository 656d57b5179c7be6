// Products by clusters against the reference, and rows of products that must not depend on others.
#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/linear/cluster_tiles.h"
#include "kernels/cuda/ops_cuda.h"
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::half_ulp;
using testing::kActivations;
using testing::near;
using testing::Random;
using testing::rounded;

constexpr DType k16Bits[] = {DType::kF16, DType::kBF16};

Context cluster_context(DType dtype) {
  setenv("TANDEM_CLUSTER_ROWS", "128", 1);
  Context ctx = testing::cuda_context(dtype);
  unsetenv("TANDEM_CLUSTER_ROWS");
  return ctx;
}

Context invariant_context(DType dtype) {
  Context ctx = testing::cuda_context(dtype);
  ctx.backend().be_batch_invariant();
  return ctx;
}

int capability_of(Context& ctx) {
  return static_cast<cuda::CudaBackend&>(ctx.backend()).capability();
}

void check(Random& random, Context& ctx, int64_t rows, int64_t in, int64_t out) {
  const DType dtype = ctx.activations();
  const bool f32 = random.integer(0, 2) == 0;
  const DType out_type = f32 ? DType::kF32 : dtype;
  const auto activation = random.pick({Activation::kNone, Activation::kRelu, Activation::kGelu});
  const Tensor x = rounded(random.matrix(rows, in), dtype),
               w = rounded(random.matrix(out, in), dtype);
  const Tensor bias =
      random.integer(0, 2) > 0 ? rounded(random.matrix(1, out), out_type).reshape({out}) : Tensor();
  const Tensor want({rows, out}, DType::kF32);
  const MatrixView view = testing::view_of(w);
  reference::linear(view, x, bias, activation, want);
  const PackedWeight packed(ctx, {&view, 1}, dtype);
  const DeviceMatrix there(ctx, random, x, dtype, 8), to(ctx, random, rows, out, out_type, 8);
  ops::linear(
      ctx, {&packed, there.tensor(), ctx.resident_bias(bias, out_type), activation, to.tensor()});
  const Tensor allowed = testing::allowed_of_product(w, x, bias, 0, half_ulp(out_type));
  EXPECT_TRUE(near(to.values(), want, allowed, 1.05 * half_ulp(out_type)))
      << name_of(dtype) << (f32 ? " to f32, " : ", ") << rows << " x " << in << " x " << out
      << ", parts: " << cuda::cluster_parts(out, in, capability_of(ctx)) << ", activation "
      << static_cast<int>(activation);
}

TEST(CudaClusterTiles, MatchesTheReference) {
  Random random;
  for (const DType dtype : k16Bits) {
    Context ctx = cluster_context(dtype);
    for (const int64_t rows : {9, 16, 17, 32, 40, 64, 65, 128})
      for (int round = 0; round < 3; ++round)
        check(random, ctx, rows, random.pick<int64_t>({8, 24, 72, 200, 264, 520, 1032}),
              random.pick<int64_t>({1, 7, 33, 64, 72, 130}));
    check(random, ctx, 20, 4104, 17);  // more weights than the ring holds
    check(random, ctx, 33, 520, 2050);
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
  for (const char* wrong : {"", "-1", "129", "8x"}) {
    setenv("TANDEM_CLUSTER_ROWS", wrong, 1);
    EXPECT_THROW(testing::cuda_context(DType::kF16), InputError) << wrong;
  }
  unsetenv("TANDEM_CLUSTER_ROWS");
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
    for (const int64_t rows : {5, 130}) check(random, ctx, rows, 264, 72);
  }
}
#endif

// They are the products that others compute, to rounding.
TEST(CudaBatchInvariant, MatchesTheReference) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = invariant_context(dtype);
    for (int round = 0; round < 12; ++round)
      check(random, ctx, random.pick<int64_t>({1, 5, 20, 130, 260}),
            random.pick<int64_t>({8, 72, 264, 1032}), random.pick<int64_t>({1, 24, 72, 130}));
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
