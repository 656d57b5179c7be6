// Products with quantised weights against the reference's with the same weights decoded: all paths,
// types, shapes; and a row's bits whatever is computed beside it.
#include <optional>
#include <set>

#include "kernels/cuda/linear/weight_path.h"
#include "tests/kernels/cuda/quantized_util.h"
#include "tests/support/variable.h"

namespace tandem {
namespace {

using cuda::WeightPath;
using testing::DeviceMatrix;
using testing::half_ulp;
using testing::kActivations;
using testing::near;
using testing::QuantizedValues;
using testing::Random;
using testing::rounded;

constexpr auto kQuantizations = {Quantization::kInt8, Quantization::kInt4, Quantization::kFp8,
                                 Quantization::kFp8Inputs};
struct QuantizedCase {
  Quantization quantization;
  int64_t rows, in, out, step;  // step: multiple that gaps between rows are of
  bool bias, f32;
  Activation activation;
};

int capability_of(Context& ctx) {
  return static_cast<cuda::CudaBackend&>(ctx.backend()).capability();
}

// Of the sum of magnitudes, for products of e4m3: Hopper's tensor cores keep about 14 bits of a
// partial sum.
constexpr double kF8Sums = 0x1p-12;

// As a row is rounded for products of e4m3.
Tensor rounded_to_e4m3(const Tensor& x) {
  const Tensor out(x.shape(), DType::kF32);
  for (int64_t i = 0; i < x.dim(0); ++i) {
    float top = 0;
    for (int64_t j = 0; j < x.dim(1); ++j) top = std::max(top, std::abs(x.row<float>(i)[j]));
    for (int64_t j = 0; j < x.dim(1); ++j) {
      const auto code = testing::nearest_e4m3(x.row<float>(i)[j] * (448.0f / top));
      out.row<float>(i)[j] = static_cast<float>(testing::e4m3_value(code) * (top / 448.0f));
    }
  }
  return out;
}

WeightPath check_quantized(Random& random, Context& ctx, const QuantizedCase& c) {
  const DType dtype = ctx.activations(), out_type = c.f32 ? DType::kF32 : dtype;
  const Tensor x = rounded(random.matrix(c.rows, c.in), dtype), w = random.matrix(c.out, c.in);
  const Tensor bias =
      c.bias ? rounded(random.matrix(1, c.out), out_type).reshape({c.out}) : Tensor();
  const MatrixView view = testing::view_of(w);
  const PackedWeight packed(ctx, {&view, 1}, dtype, c.quantization);
  const DeviceMatrix there(ctx, random, x, dtype, c.step),
      out(ctx, random, c.rows, c.out, out_type, c.step);
  const auto at = reinterpret_cast<uintptr_t>(there.tensor().raw()) |
                  static_cast<uintptr_t>(there.tensor().row_stride()) * size_of(dtype);
  const WeightPath path = cuda::weight_path(
      {c.rows, c.out, c.in, dtype, c.quantization, at % 16 == 0, capability_of(ctx)});
  ops::linear(ctx, {&packed, there.tensor(), ctx.resident_bias(bias, out_type), c.activation,
                    out.tensor()});

  const Tensor decoded = QuantizedValues(ctx, packed).all();
  const Tensor want({c.rows, c.out}, DType::kF32);
  reference::linear(testing::view_of(decoded),
                    path == WeightPath::kFp8Product ? rounded_to_e4m3(x) : x, bias, c.activation,
                    want);
  // A weight in int4 is rounded where it is written out; activations then follow rounded sums.
  const bool loose = path == WeightPath::kProduct && c.quantization == Quantization::kInt4;
  const double of_terms = loose ? half_ulp(dtype) : path == WeightPath::kFp8Product ? kF8Sums : 0;
  const Tensor allowed =
      testing::allowed_of_product(decoded, x, bias, of_terms, loose ? half_ulp(out_type) : 0);
  EXPECT_TRUE(near(out.values(), want, allowed, 1.05 * half_ulp(out_type)))
      << name_of(c.quantization) << " " << name_of(dtype) << (c.f32 ? " to f32, " : ", ") << c.rows
      << " x " << c.in << " x " << c.out << (c.bias ? ", bias" : "") << ", activation "
      << static_cast<int>(c.activation) << ", path " << static_cast<int>(path);
  return path;
}

QuantizedCase any_case(Random& random, Quantization q, int64_t rows, int64_t in, int64_t out,
                       int64_t step) {
  return {q,
          rows,
          in,
          out,
          step,
          random.integer(0, 2) > 0,
          random.integer(0, 3) == 0,
          random.gentle_activation()};
}

TEST(CudaQuantizedLinear, SizesOfModels) {
  Random random;
  std::set<std::pair<Quantization, WeightPath>> seen;
  int capability = 0;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    capability = capability_of(ctx);
    for (const Quantization q : kQuantizations)
      for (const int64_t rows : {1, 2, 4, 5, 8, 13, 17, 40, 64, 70, 257}) {
        // (Many rows are slow on the emulator.)
        const auto size = [&] {
          return rows > 64 ? random.pick<int64_t>({16, 64, 96, 128})
                           : random.pick<int64_t>({16, 64, 96, 128, 208, 384, 640});
        };
        seen.emplace(q, check_quantized(random, ctx, any_case(random, q, rows, size(), size(), 8)));
      }
  }
  if (capability < 89) return;
  for (const Quantization q : {Quantization::kInt8, Quantization::kInt4, Quantization::kFp8})
    for (const WeightPath path : {WeightPath::kRows, WeightPath::kTiles, WeightPath::kProduct})
      EXPECT_TRUE(seen.contains({q, path})) << name_of(q) << ", path " << static_cast<int>(path);
  EXPECT_TRUE(seen.contains({Quantization::kFp8Inputs, WeightPath::kFp8Product}));
}

// Sizes that are no multiples of anything, rows that begin anywhere.
TEST(CudaQuantizedLinear, OddSizes) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const Quantization q : kQuantizations)
      for (int round = 0; round < 8; ++round) {
        const auto size = [&] {
          return random.pick<int64_t>({1, 2, 3, 7, 8, 15, 24, 63, 65, 127, 129, 131, 200, 264});
        };
        check_quantized(random, ctx,
                        any_case(random, q, random.pick<int64_t>({1, 3, 7, 11, 16, 24, 25, 50}),
                                 size(), size(), random.pick<int64_t>({1, 8})));
      }
  }
}

// Long sums, in several parts on tensor cores.
TEST(CudaQuantizedLinear, Parts) {
  Random random;
  Context ctx = testing::cuda_context(DType::kBF16);
  for (const Quantization q : kQuantizations)
    for (const int64_t in : {2048, 1160}) {
      ASSERT_GT(cuda::tile_parts(72, cuda::quantized_pitch(q, in)), 1);
      check_quantized(random, ctx, {q, 9, in, 72, 8, true, false, Activation::kGelu});
      check_quantized(random, ctx, {q, 1, in, 72, 8, true, true, Activation::kNone});
    }
}

TEST(CudaQuantizedLinear, OlderDevices) {
  Random random;
  for (const char* text : {"7.5", "8.0", "8.9"}) {
    // An emulated device of another generation. (A real one stays what it is.)
    const testing::Variable capability("TANDEM_EMULATOR_CAPABILITY", text);
    for (const DType dtype : {DType::kF16, DType::kBF16}) {
      Context ctx = testing::cuda_context(dtype);
      for (const Quantization q : kQuantizations)
        for (const int64_t rows : {3, 20, 30})
          check_quantized(random, ctx, any_case(random, q, rows, 160, 96, 8));
    }
  }
}

// The first rows of a larger batch have the bits that they have alone, on one path.
TEST(CudaQuantizedLinear, RowsDoNotDependOnOthers) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    const Tensor x = rounded(random.matrix(64, 520), dtype), w = random.matrix(80, 520);
    const MatrixView view = testing::view_of(w);
    const Tensor x_there = DeviceMatrix(ctx, random, x, dtype, 8).tensor();
    for (const Quantization q :
         {Quantization::kNone, Quantization::kInt8, Quantization::kInt4, Quantization::kFp8}) {
      const PackedWeight packed(ctx, {&view, 1}, dtype, q);
      std::map<WeightPath, Tensor> first;
      for (const int64_t rows : {64, 33, 20, 9, 8, 6, 5, 4, 3, 2, 1}) {
        const WeightPath path =
            cuda::weight_path({rows, 80, 520, dtype, q, true, capability_of(ctx)});
        if (path == WeightPath::kProduct) continue;  // cuBLASLt's
        const Tensor out = ctx.make({rows, 80}, DType::kF32);
        ops::linear(ctx, {&packed, x_there.rows(0, rows), {}, Activation::kGelu, out});
        const Tensor got = ctx.on_host(out);
        const auto [of_path, is_new] = first.emplace(path, got);
        if (!is_new) {
          EXPECT_TRUE(testing::same_bits(got, of_path->second.rows(0, rows)))
              << name_of(q) << " " << name_of(dtype) << ", " << rows << " rows";
        }
      }
      EXPECT_TRUE(first.contains(WeightPath::kRows));
    }
  }
}

// A row of the input that is not finite is so itself, and no other is.
TEST(CudaQuantizedLinear, StrangeInputs) {
  Random random;
  Context ctx = testing::cuda_context(DType::kBF16);
  for (const Quantization q : kQuantizations)
    for (const int64_t rows : {3, 12, 260}) {
      const Tensor x = rounded(random.matrix(rows, 128), DType::kBF16), w = random.matrix(64, 128);
      x.row<float>(1)[77] = std::numeric_limits<float>::quiet_NaN();
      const MatrixView view = testing::view_of(w);
      const PackedWeight packed(ctx, {&view, 1}, DType::kBF16, q);
      const DeviceMatrix there(ctx, random, x, DType::kBF16, 8);
      const Tensor out = ctx.make({rows, 64}, DType::kF32);
      ops::linear(ctx, {&packed, there.tensor(), {}, Activation::kNone, out});
      const Tensor got = ctx.on_host(out);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < 64; ++j)
          ASSERT_EQ(std::isnan(got.row<float>(i)[j]), i == 1) << name_of(q) << ", " << i;
    }
}

}  // namespace
}  // namespace tandem
