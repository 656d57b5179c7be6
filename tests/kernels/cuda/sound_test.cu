// The ops of encoders of sound on the device.
#include "tests/kernels/cuda/device_matrix.h"
#include "tests/kernels/sound_problems.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::indices;
using testing::kActivations;
using testing::near;
using testing::Random;
using testing::rounded;
using testing::to_device;

double sound_tolerance(DType dtype) { return dtype == DType::kF32 ? 3e-5 : 4e-2; }

TEST(CudaSound, ConvolutionsMatchTheReference) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (int round = 0; round < 8; ++round) {
      ops::DepthwiseConvArgs want = testing::random_depthwise(random, {9, 1, 20});
      const DType from = round % 2 == 0 ? DType::kF32 : dtype;
      want.x = rounded(want.x, from);
      want.out = Tensor({want.out.dim(0), want.out.dim(1)}, DType::kF32);
      reference::depthwise_conv(want);
      const DeviceMatrix x(ctx, random, want.x, from),
          out(ctx, random, want.out.dim(0), want.out.dim(1), dtype);
      ops::DepthwiseConvArgs args = want;
      args.x = x.tensor();
      args.start_loc = to_device(ctx, want.start_loc);
      args.out_starts = to_device(ctx, want.out_starts);
      args.weight = to_device(ctx, want.weight);
      args.bias = to_device(ctx, want.bias);
      args.out = out.tensor();
      ops::depthwise_conv(ctx, args);
      EXPECT_TRUE(near(out.values(), rounded(want.out, dtype), sound_tolerance(dtype), 1e-2))
          << name_of(dtype) << " " << round;
    }
  }
}

TEST(CudaSound, AttentionMatchesTheReference) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (int round = 0; round < 4; ++round) {
      ops::RelativeAttentionArgs want = testing::random_relative(random, {3, 40, 1});
      for (Tensor* t : {&want.q, &want.k, &want.v, &want.distances}) *t = rounded(*t, dtype);
      want.out = Tensor({44, want.q.dim(1)}, DType::kF32);
      reference::relative_attention(want);
      const DeviceMatrix q(ctx, random, want.q, dtype), k(ctx, random, want.k, dtype),
          v(ctx, random, want.v, dtype), distances(ctx, random, want.distances, dtype),
          out(ctx, random, 44, want.q.dim(1), dtype);
      ops::RelativeAttentionArgs args = want;
      args.q = q.tensor();
      args.k = k.tensor();
      args.v = v.tensor();
      args.distances = distances.tensor();
      args.indptr = to_device(ctx, want.indptr);
      args.q_bias = to_device(ctx, want.q_bias);
      args.d_bias = to_device(ctx, want.d_bias);
      args.out = out.tensor();
      ops::relative_attention(ctx, args);
      EXPECT_TRUE(near(out.values(), rounded(want.out, dtype), sound_tolerance(dtype), 1e-2))
          << name_of(dtype) << " " << round;
    }
  }
}

TEST(CudaSound, FramesAndFeaturesMatchTheReference) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int64_t size : {1, 33, 80}) {
      const Tensor frames = random.matrix(20, size), want({20, size}, DType::kF32);
      reference::compress_frames({frames, 0.75f, 1e-6f, want});
      const DeviceMatrix x(ctx, random, frames, DType::kF32), out(ctx, random, 20, size, dtype);
      ops::compress_frames(ctx, {x.tensor(), 0.75f, 1e-6f, out.tensor()});
      EXPECT_TRUE(near(out.values(), rounded(want, dtype), sound_tolerance(dtype), 0))
          << name_of(dtype) << " " << size;
      const Tensor rows = rounded(random.matrix(150, size), dtype),
                   normed({150, size}, DType::kF32), weight = random.vector(size),
                   bias = random.vector(size), starts = indices({0, 9, 9, 150});
      reference::feature_norm({rows, starts, weight, bias, 1e-5f, normed});
      const DeviceMatrix in(ctx, random, rows, dtype), to(ctx, random, 150, size, dtype);
      ops::feature_norm(ctx, {in.tensor(), to_device(ctx, starts), to_device(ctx, weight),
                              to_device(ctx, bias), 1e-5f, to.tensor()});
      EXPECT_TRUE(near(to.values(), rounded(normed, dtype), sound_tolerance(dtype), 0))
          << name_of(dtype) << " " << size;
      ops::apply_activation(ctx, {in.tensor(), Activation::kRelu});
      Tensor relu({150, size}, DType::kF32);
      for (int64_t i = 0; i < relu.size(); ++i)
        relu.data<float>()[i] = std::max(rows.data<float>()[i], 0.0f);
      EXPECT_TRUE(near(in.values(), relu, 0, 0)) << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace tandem
