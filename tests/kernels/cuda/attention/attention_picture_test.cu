// Attention within windows of pictures on the device, with keys in shared memory and without, and
// among their features; convolutions of pictures; rows that are added to one another.
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::kActivations;
using testing::near;
using testing::Random;
using testing::rounded;
using testing::to_device;

struct PictureProblem {
  PictureWindows windows;
  int pictures, heads, head_dim;
};

void check_pictures(Random& random, const PictureProblem& p, DType dtype) {
  Context ctx = testing::cuda_context(dtype);
  const PictureWindows& w = p.windows;
  const int64_t rows = int64_t{p.pictures} * w.height * w.width,
                size = int64_t{p.heads} * p.head_dim, distances = 2 * w.window - 1;
  const auto values = [&](int64_t n) { return rounded(random.matrix(n, size), dtype); };
  ops::PictureAttentionArgs want{};
  want.q = values(rows);
  want.k = values(rows);
  want.v = values(rows);
  want.windows = w;
  want.num_heads = p.heads;
  want.head_dim = p.head_dim;
  want.scale = 1.0f / std::sqrt(static_cast<float>(p.head_dim));
  want.bias = random.matrix(p.heads, distances * distances, 2.0f);
  want.out = Tensor({rows, size}, DType::kF32);
  want.pad_k = values(1);
  want.pad_v = values(1);
  reference::picture_attention(want);
  const DeviceMatrix q(ctx, random, want.q, dtype), k(ctx, random, want.k, dtype),
      v(ctx, random, want.v, dtype), pad_k(ctx, random, want.pad_k, dtype),
      pad_v(ctx, random, want.pad_v, dtype), out(ctx, random, rows, size, dtype);
  ops::PictureAttentionArgs args = want;
  args.q = q.tensor();
  args.k = k.tensor();
  args.v = v.tensor();
  args.bias = to_device(ctx, want.bias);
  args.out = out.tensor();
  args.pad_k = w.is_filled_up() ? pad_k.tensor() : Tensor();
  args.pad_v = w.is_filled_up() ? pad_v.tensor() : Tensor();
  ops::picture_attention(ctx, args);
  EXPECT_TRUE(near(out.values(), rounded(want.out, dtype), dtype == DType::kF32 ? 2e-5 : 4e-2, 0))
      << name_of(dtype) << " " << w.height << " x " << w.width << ", window " << w.window;
}

TEST(CudaPictureAttention, MatchesTheReference) {
  Random random;
  const PictureProblem problems[] = {{{8, 8, 4, 0}, 2, 2, 16},   {{8, 12, 4, 2}, 1, 3, 8},
                                     {{7, 10, 3, 1}, 2, 2, 33},  {{5, 5, 5, 0}, 1, 1, 32},
                                     {{14, 13, 7, 3}, 1, 1, 64}, {{18, 20, 10, 5}, 1, 1, 96}};
  for (const DType dtype : kActivations)
    for (const PictureProblem& p : problems) check_pictures(random, p, dtype);
}

TEST(CudaChannelAttention, MatchesTheReference) {
  Random random;
  for (const DType dtype : kActivations)
    for (const int width : {3, 8, 33}) {
      Context ctx = testing::cuda_context(dtype);
      const int64_t points = 50, rows = 2 * points, size = int64_t{2} * width;
      const auto values = [&] { return rounded(random.matrix(rows, size), dtype); };
      ops::ChannelAttentionArgs want{};
      want.q = values();
      want.k = values();
      want.v = values();
      want.points = points;
      want.width = width;
      want.scale = 1.0f / std::sqrt(static_cast<float>(points));
      want.out = Tensor({rows, size}, DType::kF32);
      reference::channel_attention(want);
      const DeviceMatrix q(ctx, random, want.q, dtype), k(ctx, random, want.k, dtype),
          v(ctx, random, want.v, dtype), out(ctx, random, rows, size, dtype);
      ops::ChannelAttentionArgs args = want;
      args.q = q.tensor();
      args.k = k.tensor();
      args.v = v.tensor();
      args.out = out.tensor();
      ops::channel_attention(ctx, args);
      EXPECT_TRUE(
          near(out.values(), rounded(want.out, dtype), dtype == DType::kF32 ? 2e-5 : 4e-2, 0))
          << name_of(dtype) << ", groups of " << width;
    }
}

TEST(CudaPictureConv, MatchesTheReference) {
  Random random;
  for (const DType dtype : kActivations)
    for (const int size : {1, 3, 5}) {
      Context ctx = testing::cuda_context(dtype);
      const int64_t rows = 2 * 6 * 7, features = 150;
      ops::PictureConvArgs want{};
      want.x = rounded(random.matrix(rows, features), dtype);
      want.height = 6;
      want.width = 7;
      want.size = size;
      want.weight = random.matrix(int64_t{size} * size, features, 0.5f);
      want.bias = random.vector(features);
      want.out = Tensor({rows, features}, DType::kF32);
      reference::picture_conv(want);
      const DeviceMatrix x(ctx, random, want.x, dtype), out(ctx, random, rows, features, dtype);
      ops::PictureConvArgs args = want;
      args.x = x.tensor();
      args.weight = to_device(ctx, want.weight);
      args.bias = to_device(ctx, want.bias);
      args.out = out.tensor();
      ops::picture_conv(ctx, args);
      EXPECT_TRUE(
          near(out.values(), rounded(want.out, dtype), dtype == DType::kF32 ? 2e-5 : 6e-2, 0))
          << name_of(dtype) << ", windows of " << size;
    }
}

TEST(CudaAddRows, Adds) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    const Tensor x = rounded(random.matrix(9, 150), dtype),
                 y = rounded(random.matrix(9, 150), dtype), want({9, 150}, DType::kF32);
    for (int64_t i = 0; i < x.size(); ++i)
      want.data<float>()[i] = x.data<float>()[i] + y.data<float>()[i];
    const DeviceMatrix a(ctx, random, x, dtype), b(ctx, random, y, dtype),
        out(ctx, random, 9, 150, dtype);
    ops::add_rows(ctx, {a.tensor(), b.tensor(), out.tensor()});
    EXPECT_TRUE(near(out.values(), rounded(want, dtype), 0, 0)) << name_of(dtype);
  }
}

}  // namespace
}  // namespace tandem
