// The ops of encoders of sound: the reference's values on all CPU levels, and the bits of a clip
// whatever is beside it.
#include "tests/kernels/sound_problems.h"

namespace tandem::sound_test {
namespace {

using testing::indices;
using testing::near;
using testing::Random;
using testing::same_bits;

class SoundOpsTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(SoundOpsTest);

std::vector<int32_t> random_lengths(Random& random, int32_t most) {
  std::vector<int32_t> out;
  for (int64_t n = random.integer(1, 3); n > 0; --n)
    out.push_back(static_cast<int32_t>(random.integer(1, most)));
  return out;
}

TEST_P(SoundOpsTest, ConvolutionsMatchTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 60; ++round) {
    ops::DepthwiseConvArgs args = testing::random_depthwise(random, random_lengths(random, 30));
    ops::depthwise_conv(ctx, args);
    const Tensor got = args.out;
    args.out = Tensor({got.dim(0), got.dim(1)}, DType::kF32);
    reference::depthwise_conv(args);
    EXPECT_TRUE(near(got, args.out, 2e-5, 1e-5)) << round;
  }
}

TEST_P(SoundOpsTest, AttentionMatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 40; ++round) {
    ops::RelativeAttentionArgs args = testing::random_relative(random, random_lengths(random, 90));
    ops::relative_attention(ctx, args);
    const Tensor got = args.out;
    args.out = Tensor({got.dim(0), got.dim(1)}, DType::kF32);
    reference::relative_attention(args);
    EXPECT_TRUE(near(got, args.out, 3e-5, 1e-5)) << args.num_heads << " of " << args.head_dim;
  }
}

TEST_P(SoundOpsTest, AClipDoesNotSeeItsNeighbours) {
  Random random;
  Context one(1), three(3);
  const ops::RelativeAttentionArgs all = testing::random_relative(random, {7, 61, 30});
  ops::relative_attention(three, all);
  ops::RelativeAttentionArgs alone = all;
  for (Tensor* t : {&alone.q, &alone.k, &alone.v}) *t = t->rows(7, 68);
  alone.indptr = indices({0, 61});
  alone.out = Tensor({61, all.out.dim(1)}, DType::kF32);
  ops::relative_attention(one, alone);
  EXPECT_TRUE(same_bits(alone.out, all.out.rows(7, 68)));
}

TEST_P(SoundOpsTest, ActivationsInPlace) {
  Random random;
  Context ctx(2);
  const Tensor x = random.strided(40, 33), want({40, 33}, DType::kF32);
  for (int64_t t = 0; t < 40; ++t)
    for (int64_t i = 0; i < 33; ++i)
      want.row<float>(t)[i] =
          static_cast<float>(reference::activate(Activation::kGelu, double{x.row<float>(t)[i]}));
  ops::apply_activation(ctx, {x, Activation::kGelu});
  EXPECT_TRUE(near(x, want, 1e-6, 1e-6));
}

TEST(CompressFrames, MatchTheReference) {
  Random random;
  Context ctx(2);
  for (const int64_t size : {1, 7, 80}) {
    const Tensor x = random.strided(20, size, 3.0f), out = random.strided(20, size),
                 want({20, size}, DType::kF32);
    std::fill_n(x.row<float>(3), size, 0.0f);  // silence stays silence
    ops::compress_frames(ctx, {x, 0.75f, 1e-6f, out});
    reference::compress_frames({x, 0.75f, 1e-6f, want});
    EXPECT_TRUE(near(out, want, 1e-6, 1e-6)) << size;
    EXPECT_EQ(out.row<float>(3)[size - 1], 0.0f);
  }
}

TEST(FeatureNorm, MatchesTheReferenceInPlace) {
  Random random;
  Context one(1), three(3);
  for (const int64_t size : {1, 16, 33}) {
    const Tensor x = random.strided(150, size), weight = random.vector(size),
                 bias = random.vector(size), want({150, size}, DType::kF32),
                 out({141, size}, DType::kF32);
    for (int64_t t = 0; t < 150; ++t) x.row<float>(t)[0] += 100.0f;
    ops::feature_norm(one, {x.rows(9, 150), indices({0, 141}), weight, bias, 1e-5f, out});
    reference::feature_norm({x, indices({0, 9, 9, 150}), weight, bias, 1e-5f, want});
    ops::feature_norm(three, {x, indices({0, 9, 9, 150}), weight, bias, 1e-5f, x});
    EXPECT_TRUE(near(x, want, 3e-5, 1e-5)) << size;
    EXPECT_TRUE(same_bits(out, x.rows(9, 150))) << size;
  }
}

}  // namespace
}  // namespace tandem::sound_test
