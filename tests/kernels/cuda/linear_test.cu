// linear of the CUDA device against the reference: all types, biases, activations, f32 results of
// 16-bit products, rows that lie apart.
#include <algorithm>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::half_ulp;
using testing::kActivations;
using testing::near;
using testing::Random;
using testing::rounded;

struct Case {
  int64_t rows, in, out, step;  // step: multiple that gaps between rows are of
  bool bias, f32;
  Activation activation;
};

void check(Random& random, Context& ctx, const Case& c) {
  const DType dtype = ctx.activations(), out_type = c.f32 ? DType::kF32 : dtype;
  const Tensor x = rounded(random.matrix(c.rows, c.in), dtype),
               w = rounded(random.matrix(c.out, c.in), dtype);
  const Tensor bias =
      c.bias ? rounded(random.matrix(1, c.out), out_type).reshape({c.out}) : Tensor();
  const Tensor want({c.rows, c.out}, DType::kF32);
  const MatrixView view = testing::view_of(w);
  reference::linear(view, x, bias, c.activation, want);

  // In two parts, as Q, K and V are.
  const int64_t half = c.out / 2;
  const Tensor w_parts[] = {w.rows(0, half), w.rows(half, c.out)};
  const MatrixView parts[] = {testing::view_of(w_parts[0]), testing::view_of(w_parts[1])};
  const PackedWeight packed(ctx, parts, dtype);
  const DeviceMatrix there(ctx, random, x, dtype, c.step),
      out(ctx, random, c.rows, c.out, out_type, c.step);
  ops::linear(ctx, {&packed, there.tensor(), ctx.resident_bias(bias, out_type), c.activation,
                    out.tensor()});
  const double sums = std::sqrt(static_cast<double>(c.in));
  // Activations follow products that were rounded already.
  EXPECT_TRUE(near(out.values(), want, (2e-6 + 2 * half_ulp(out_type)) * sums,
                   2.2 * half_ulp(out_type) + 1e-5))
      << name_of(dtype) << (c.f32 ? " to f32, " : ", ") << c.rows << " x " << c.in << " x " << c.out
      << (c.bias ? ", bias" : "") << ", activation " << static_cast<int>(c.activation);
}

TEST(CudaLinear, MatchesTheReference) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (int round = 0; round < 40; ++round) {
      const auto size = [&] { return random.pick<int64_t>({8, 16, 56, 64, 72, 128, 200, 256}); };
      check(random, ctx,
            {random.pick<int64_t>({1, 2, 3, 8, 17, 33, 64, 100}), size(), size(), 8,
             random.integer(0, 2) > 0, random.integer(0, 2) == 0,
             random.pick({Activation::kNone, Activation::kRelu, Activation::kGelu,
                          Activation::kGeluTanh, Activation::kSilu})});
    }
  }
}

// Sizes that are no multiples of anything: narrow heads, small vocabularies.
TEST(CudaLinear, OddSizes) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (int round = 0; round < 20; ++round) {
      const auto size = [&] { return random.pick<int64_t>({1, 2, 3, 7, 15, 17, 63, 65, 130}); };
      check(random, ctx,
            {random.pick<int64_t>({1, 3, 16, 50}), size(), size(), 1, random.integer(0, 2) > 0,
             random.integer(0, 2) == 0,
             random.pick({Activation::kNone, Activation::kRelu, Activation::kGelu})});
    }
  }
}

// BART-large's sizes, and its vocabulary.
TEST(CudaLinear, ModelSizes) {
  Random random;
  Context ctx = testing::cuda_context(DType::kBF16);
  check(random, ctx, {2, 1024, 512, 8, true, false, Activation::kGelu});
  check(random, ctx, {3, 128, 4096, 8, true, false, Activation::kGelu});
  check(random, ctx, {1, 64, 50265, 8, true, true, Activation::kNone});
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
