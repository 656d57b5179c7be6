// Attention within windows of pictures and among their features: the reference's values on all CPU
// levels, and the bits of a picture whatever is beside it. Convolutions of pictures. The rows that
// are added to one another.
#include "tests/kernels/kernels_test_util.h"

namespace tandem::picture_attention_test {
namespace {

using testing::near;
using testing::Random;
using testing::same_bits;

class PictureAttentionTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(PictureAttentionTest);

int side(Random& random, int low, int high) { return static_cast<int>(random.integer(low, high)); }

PictureWindows random_windows(Random& random) {
  const int window = side(random, 1, 8);
  PictureWindows out{window * side(random, 1, 3), window * side(random, 1, 3), window};
  if (random.integer(0, 1) == 1) out.height = side(random, 1, 20);
  if (random.integer(0, 1) == 1) out.width = side(random, 1, 20);
  out.shift = side(random, 0, window - 1);
  return out;
}

ops::PictureAttentionArgs random_args(Random& random, const PictureWindows& w, int pictures) {
  ops::PictureAttentionArgs args{};
  args.windows = w;
  args.num_heads = side(random, 1, 3);
  args.head_dim = random.pick({1, 8, 12, 32, 80});
  args.scale = 1.0f / std::sqrt(static_cast<float>(args.head_dim));
  const int64_t rows = int64_t{pictures} * w.height * w.width,
                size = int64_t{args.num_heads} * args.head_dim, distances = 2 * w.window - 1;
  for (Tensor* t : {&args.q, &args.k, &args.v, &args.out}) *t = random.strided(rows, size);
  args.bias = random.matrix(args.num_heads, distances * distances, 2.0f);
  if (w.is_filled_up())
    for (Tensor* t : {&args.pad_k, &args.pad_v}) *t = random.strided(1, size);
  return args;
}

TEST_P(PictureAttentionTest, MatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 40; ++round) {
    const PictureWindows w = random_windows(random);
    ops::PictureAttentionArgs args = random_args(random, w, side(random, 0, 3));
    ops::picture_attention(ctx, args);
    const Tensor got = args.out;
    args.out = Tensor({got.dim(0), got.dim(1)}, DType::kF32);
    reference::picture_attention(args);
    EXPECT_TRUE(near(got, args.out, 8e-6, 1e-5))
        << w.height << " x " << w.width << ", window " << w.window << ", shift " << w.shift << ", "
        << args.num_heads << " heads of " << args.head_dim;
  }
}

TEST_P(PictureAttentionTest, APictureDoesNotSeeItsNeighbours) {
  Random random;
  Context one(1), three(3);
  const PictureWindows w{9, 13, 4, 2};
  ops::PictureAttentionArgs args = random_args(random, w, 3);
  ops::picture_attention(three, args);
  const int64_t points = 9 * 13;
  ops::PictureAttentionArgs alone = args;
  for (Tensor* t : {&alone.q, &alone.k, &alone.v}) *t = t->rows(points, 2 * points);
  alone.out = Tensor({points, args.out.dim(1)}, DType::kF32);
  ops::picture_attention(one, alone);
  EXPECT_TRUE(same_bits(alone.out, args.out.rows(points, 2 * points)));
}

ops::ChannelAttentionArgs random_channels(Random& random, int64_t points, int pictures) {
  ops::ChannelAttentionArgs args{};
  args.points = points;
  args.width = random.pick({1, 3, 8, 32});
  args.scale = 1.0f / std::sqrt(static_cast<float>(points));
  const int64_t rows = pictures * points, size = random.integer(1, 3) * args.width;
  for (Tensor* t : {&args.q, &args.k, &args.v, &args.out}) *t = random.strided(rows, size);
  return args;
}

TEST_P(PictureAttentionTest, ChannelsMatchTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 30; ++round) {
    ops::ChannelAttentionArgs args =
        random_channels(random, random.integer(1, 150), side(random, 0, 3));
    ops::channel_attention(ctx, args);
    const Tensor got = args.out;
    args.out = Tensor(got.shape(), DType::kF32);
    reference::channel_attention(args);
    EXPECT_TRUE(near(got, args.out, 8e-6, 1e-5));
  }
}

TEST_P(PictureAttentionTest, ChannelsAreOfOnePicture) {
  Random random;
  Context one(1), three(3);
  const ops::ChannelAttentionArgs args = random_channels(random, 37, 3);
  ops::channel_attention(three, args);
  ops::ChannelAttentionArgs alone = args;
  for (Tensor* t : {&alone.q, &alone.k, &alone.v}) *t = t->rows(37, 74);
  alone.out = Tensor({37, args.out.dim(1)}, DType::kF32);
  ops::channel_attention(one, alone);
  EXPECT_TRUE(same_bits(alone.out, args.out.rows(37, 74)));
}

TEST(PictureConv, MatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 30; ++round) {
    ops::PictureConvArgs args{};
    args.height = side(random, 1, 9);
    args.width = side(random, 1, 9);
    args.size = random.pick({1, 3, 5});
    const int64_t rows = side(random, 0, 3) * args.height * args.width,
                  size = random.integer(1, 40);
    args.x = random.strided(rows, size);
    args.out = random.strided(rows, size);
    args.weight = random.matrix(int64_t{args.size} * args.size, size);
    args.bias = random.vector(size);
    ops::picture_conv(ctx, args);
    const Tensor got = args.out;
    args.out = Tensor(got.shape(), DType::kF32);
    reference::picture_conv(args);
    EXPECT_TRUE(near(got, args.out, 8e-6, 1e-5));
  }
}

TEST(AddRows, AddsInPlaceToo) {
  Random random;
  Context ctx(2);
  const Tensor x = random.strided(40, 33), y = random.strided(40, 33), out = random.strided(40, 33);
  ops::add_rows(ctx, {x, y, out});
  for (int64_t i = 0; i < 40; ++i)
    for (int64_t j = 0; j < 33; ++j)
      EXPECT_EQ(out.row<float>(i)[j], x.row<float>(i)[j] + y.row<float>(i)[j]);
  ops::add_rows(ctx, {x, y, x});
  EXPECT_TRUE(same_bits(x, out));
}

}  // namespace
}  // namespace tandem::picture_attention_test
