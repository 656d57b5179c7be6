// A norm in front of a product (LinearArgs::norm): the norm's rows and sums have layer_norm's bits.
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::half_ulp;
using testing::kActivations;
using testing::near;
using testing::Random;
using testing::rounded;
using testing::same_bits;
using testing::to_device;

struct NormCase {
  int64_t rows, in, out, step;  // step: multiple that gaps between rows are of
  bool rms, residual, sum;
  Activation activation;
};

struct NormProblem {
  NormProblem(Context& ctx, Random& random, const NormCase& c)
      : ctx(ctx),
        of(c),
        dtype(ctx.activations()),
        x(ctx, random, rounded(random.matrix(c.rows, c.in), dtype), dtype, c.step),
        residual(ctx, random, rounded(random.matrix(c.rows, c.in), dtype), dtype, c.step),
        norm_weight(to_device(ctx, random.matrix(1, c.in).reshape({c.in}))),
        norm_bias(to_device(ctx, random.matrix(1, c.in).reshape({c.in}))),
        w(rounded(random.matrix(c.out, c.in), dtype)),
        bias(rounded(random.matrix(1, c.out), dtype).reshape({c.out})) {
    const MatrixView view = testing::view_of(w);
    weight = PackedWeight(ctx, {&view, 1}, dtype);
  }

  ops::LayerNormArgs norm_to(int64_t rows, const Tensor& out, const Tensor& sum) const {
    return {x.tensor().rows(0, rows),
            of.residual ? residual.tensor().rows(0, rows) : Tensor(),
            norm_weight,
            of.rms ? Tensor() : norm_bias,
            1e-5f,
            out,
            sum,
            of.rms};
  }
  struct Result {
    Tensor normed, sum, out;
  };
  // The first `rows` of them.
  Result run(Random& random, int64_t rows) const {
    const DeviceMatrix normed(ctx, random, rows, of.in, dtype, of.step),
        sum(ctx, random, rows, of.in, dtype, of.step),
        out(ctx, random, rows, of.out, dtype, of.step);
    const ops::LayerNormArgs norm =
        norm_to(rows, normed.tensor(), of.sum ? sum.tensor() : Tensor());
    ops::linear(ctx, {&weight, normed.tensor(), ctx.resident_bias(bias, dtype), of.activation,
                      out.tensor(), &norm});
    return {normed.values(), of.sum ? sum.values() : Tensor(), out.values()};
  }

  Context& ctx;
  NormCase of;
  DType dtype;
  DeviceMatrix x, residual;
  Tensor norm_weight, norm_bias, w, bias;
  PackedWeight weight;
};

void check_norm(Context& ctx, Random& random, const NormCase& c) {
  const NormProblem p(ctx, random, c);
  const NormProblem::Result got = p.run(random, c.rows);
  const DeviceMatrix normed(ctx, random, c.rows, c.in, p.dtype, c.step),
      sum(ctx, random, c.rows, c.in, p.dtype, c.step);
  ops::layer_norm(ctx, p.norm_to(c.rows, normed.tensor(), c.sum ? sum.tensor() : Tensor()));
  const auto about = [&] {
    return std::string(name_of(p.dtype)) + " " + std::to_string(c.rows) + " x " +
           std::to_string(c.in) + " x " + std::to_string(c.out) + (c.rms ? ", rms" : "") +
           (c.residual ? ", residual" : "");
  };
  EXPECT_TRUE(same_bits(got.normed, normed.values())) << about();
  if (c.sum) {
    EXPECT_TRUE(same_bits(got.sum, sum.values())) << about();
  }
  const Tensor want({c.rows, c.out}, DType::kF32);
  reference::linear(testing::view_of(p.w), got.normed, p.bias, c.activation, want);
  const Tensor allowed = testing::allowed_of_product(p.w, got.normed, p.bias, 0, half_ulp(p.dtype));
  EXPECT_TRUE(near(got.out, want, allowed, 1.05 * half_ulp(p.dtype))) << about();
}

TEST(CudaNormLinear, IsTheNormAndTheProduct) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int64_t rows : {1, 2, 8, 9, 33, 129}) {
      const int64_t in = random.pick<int64_t>({8, 40, 64, 72, 128, 256, 1000});
      const bool residual = random.integer(0, 2) > 0;
      check_norm(ctx, random,
                 {rows, in, random.pick<int64_t>({8, 64, 72, 130}), 8, random.integer(0, 2) == 0,
                  residual, residual && random.integer(0, 1) == 0,
                  random.pick({Activation::kNone, Activation::kGelu, Activation::kRelu})});
    }
    // More than layer_norm's threads have in one round; rows that begin anywhere.
    check_norm(ctx, random, {5, 1544, 40, 8, false, true, true, Activation::kGelu});
    check_norm(ctx, random, {6, 64, 40, 1, false, true, true, Activation::kNone});
  }
}

}  // namespace
}  // namespace tandem
