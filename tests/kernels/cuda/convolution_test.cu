// Windows of convolutions on the device.
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::indices;
using testing::kActivations;
using testing::near;
using testing::Random;
using testing::rounded;
using testing::same_bits;
using testing::to_device;

TEST(CudaConvolution, WindowsMatchTheReference) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const DType from : {DType::kF32, dtype})
      for (const int64_t size : {1, 33, 80}) {
        const std::vector<int32_t> starts = {0, 9, 9, 20}, out_starts = {0, 5, 5, 11};
        const Tensor x = rounded(random.matrix(20, size), dtype), want({11, 3 * size}, DType::kF32);
        reference::conv_windows({x, indices(starts), indices(out_starts), 3, 2, 1, want});
        const DeviceMatrix in(ctx, random, x, from), out(ctx, random, 11, 3 * size, dtype);
        ops::conv_windows(ctx, {in.tensor(), to_device(ctx, indices(starts)),
                                to_device(ctx, indices(out_starts)), 3, 2, 1, out.tensor()});
        EXPECT_TRUE(same_bits(out.values(), want)) << name_of(dtype) << " " << size;
      }
  }
}

TEST(CudaConvolution, NormsOfSequencesMatchTheReference) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int64_t size : {1, 33, 80}) {
      const std::vector<int32_t> starts = {0, 9, 9, 150};
      const Tensor x = rounded(random.matrix(150, size), dtype), want({150, size}, DType::kF32);
      const Tensor weight = random.matrix(1, size).reshape({size}),
                   bias = random.matrix(1, size).reshape({size});
      reference::sequence_norm({x, indices(starts), weight, bias, 1e-5f, want});
      const DeviceMatrix in(ctx, random, x, dtype), out(ctx, random, 150, size, dtype);
      ops::sequence_norm(ctx, {in.tensor(), to_device(ctx, indices(starts)), to_device(ctx, weight),
                               to_device(ctx, bias), 1e-5f, out.tensor()});
      EXPECT_TRUE(near(out.values(), rounded(want, dtype), dtype == DType::kF32 ? 2e-5 : 4e-2, 0))
          << name_of(dtype) << " " << size;
    }
  }
}

}  // namespace
}  // namespace tandem
