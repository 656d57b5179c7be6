// Windows of convolutions and norms over sequences against the reference, and a convolution against
// its definition.
#include <utility>
#include <vector>

#include "tests/kernels/kernels_test_util.h"

namespace tandem::convolution_test {
namespace {

using testing::indices;
using testing::near;
using testing::Random;
using testing::same_bits;

struct Problem {
  int width, stride, padding;
  std::vector<int32_t> starts{0}, out_starts{0};
  Problem(Random& random, int sequences) {
    width = static_cast<int>(random.integer(1, 5));
    stride = static_cast<int>(random.integer(1, 3));
    padding = static_cast<int>(random.integer(0, width - 1));
    for (int s = 0; s < sequences; ++s) {
      const auto rows = static_cast<int32_t>(random.integer(width, 30));
      starts.push_back(starts.back() + rows);
      out_starts.push_back(out_starts.back() + (rows + 2 * padding - width) / stride + 1);
    }
  }
};

TEST(ConvWindows, MatchTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 40; ++round) {
    const Problem p(random, static_cast<int>(random.integer(1, 4)));
    const int64_t size = random.pick<int64_t>({1, 3, 32, 80});
    const Tensor x = random.strided(p.starts.back(), size),
                 out = random.strided(p.out_starts.back(), size * p.width);
    ops::ConvWindowsArgs args{
        x, indices(p.starts), indices(p.out_starts), p.width, p.stride, p.padding, out};
    ops::conv_windows(ctx, args);
    args.out = Tensor({out.dim(0), out.dim(1)}, DType::kF32);
    reference::conv_windows(args);
    EXPECT_TRUE(same_bits(out, args.out)) << round;
  }
}

// y[o] = sum over c and k of w[o][c][k] x[stride p + k - padding][c].
TEST(ConvWindows, TimesAWeightAreAConvolution) {
  Random random;
  Context ctx(1);
  const int64_t in = 5, features = 7, rows = 12, width = 3;
  const Tensor x = random.matrix(rows, in), w = random.matrix(features, in * width);
  const MatrixView view{w.raw(), DType::kF32, features, in * width, in * width};
  const PackedWeight packed(ctx, {&view, 1}, DType::kF32);
  const Tensor windows({6, in * width}, DType::kF32), y({6, features}, DType::kF32);
  ops::conv_windows(ctx, {x, indices({0, 12}), indices({0, 6}), 3, 2, 1, windows});
  ops::linear(ctx, {&packed, windows, {}, Activation::kNone, y});
  for (int64_t p = 0; p < 6; ++p)
    for (int64_t o = 0; o < features; ++o) {
      double sum = 0;
      for (int64_t c = 0; c < in; ++c)
        for (int64_t k = 0; k < width; ++k)
          if (const int64_t row = 2 * p + k - 1; row >= 0 && row < rows)
            sum += double{w.row<float>(o)[c * width + k]} * double{x.row<float>(row)[c]};
      EXPECT_NEAR(y.row<float>(p)[o], sum, 1e-4);
    }
}

TEST(ConvWindows, ASequenceDoesNotSeeItsNeighbours) {
  Random random;
  Context ctx(2);
  const Tensor x = random.matrix(20, 8), both({20, 24}, DType::kF32), alone({10, 24}, DType::kF32);
  ops::conv_windows(ctx, {x, indices({0, 10, 20}), indices({0, 10, 20}), 3, 1, 1, both});
  ops::conv_windows(ctx, {x.rows(10, 20), indices({0, 10}), indices({0, 10}), 3, 1, 1, alone});
  EXPECT_TRUE(same_bits(both.rows(10, 20), alone));
}

struct Norm {
  Norm(Random& random, int64_t rows, int64_t size)
      : Norm(random.strided(rows, size), random.matrix(1, size).reshape({size}),
             random.matrix(1, size).reshape({size})) {}
  Norm(Tensor x, Tensor weight, Tensor bias)
      : x(std::move(x)), weight(std::move(weight)), bias(std::move(bias)) {}
  Tensor of(Context& ctx, const std::vector<int32_t>& starts) const {
    Tensor out({x.dim(0), x.dim(1)}, DType::kF32);
    ops::sequence_norm(ctx, {x, indices(starts), weight, bias, 1e-5f, out});
    return out;
  }
  Tensor x, weight, bias;
};

TEST(SequenceNorm, MatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 40; ++round) {
    std::vector<int32_t> starts{0};
    for (int64_t s = random.integer(1, 4); s > 0; --s)
      starts.push_back(starts.back() + static_cast<int32_t>(random.pick<int64_t>({0, 1, 13, 200})));
    if (starts.back() == 0) starts.back() = 5;
    const Norm norm(random, starts.back(), random.pick<int64_t>({1, 3, 48, 81}));
    const float shift = random.pick<float>({0.0f, 100.0f});
    for (int64_t t = 0; t < norm.x.dim(0); ++t)
      for (int64_t c = 0; c < norm.x.dim(1); ++c) norm.x.row<float>(t)[c] += shift;
    const Tensor out = norm.of(ctx, starts), want({out.dim(0), out.dim(1)}, DType::kF32);
    reference::sequence_norm({norm.x, indices(starts), norm.weight, norm.bias, 1e-5f, want});
    EXPECT_TRUE(near(out, want, shift == 0 ? 2e-5 : 2e-3, 0)) << round;
  }
}

TEST(SequenceNorm, IsTheSameBesideOthersInPlaceAndOnAnyThreads) {
  Random random;
  Context one(1), three(3);
  const Norm norm(random, 500, 48);
  const Tensor both = norm.of(three, {0, 201, 500});
  const Norm second{norm.x.rows(201, 500), norm.weight, norm.bias};
  EXPECT_TRUE(same_bits(both.rows(201, 500), second.of(one, {0, 299})));
  ops::sequence_norm(one, {norm.x, indices({0, 201, 500}), norm.weight, norm.bias, 1e-5f, norm.x});
  EXPECT_TRUE(same_bits(norm.x, both));
}

}  // namespace
}  // namespace tandem::convolution_test
