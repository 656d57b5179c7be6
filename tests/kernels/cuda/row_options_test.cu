// Ops on rows that some families need: norms of groups, rows by index, soft caps of logits, the
// merging of attentions.
#include <cmath>
#include <limits>

#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::half_ulp;
using testing::indices;
using testing::kActivations;
using testing::near;
using testing::Random;
using testing::rounded;
using testing::same_bits;
using testing::to_device;

TEST(CudaRowOptions, NormsOfGroups) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int64_t size : {1, 7, 8, 64, 256, 1200})
      for (const bool rms : {false, true}) {
        const int64_t rows = random.integer(1, 4);
        const int groups = static_cast<int>(random.integer(2, 5));
        const Tensor x = rounded(random.matrix(rows, groups * size), dtype);
        const Tensor weight = random.vector(size), bias = rms ? Tensor() : random.vector(size);
        const Tensor want(x.shape(), DType::kF32);
        reference::layer_norm({x, {}, weight, bias, 1e-5f, want, {}, rms, groups});
        const DeviceMatrix there(ctx, random, x, dtype, random.pick({1, 8}));
        const DeviceMatrix out(ctx, random, rows, groups * size, dtype, random.pick({1, 8}));
        ops::LayerNormArgs args{there.tensor(),
                                {},
                                to_device(ctx, weight),
                                rms ? Tensor() : to_device(ctx, bias),
                                1e-5f,
                                out.tensor(),
                                {},
                                rms,
                                groups};
        ops::layer_norm(ctx, args);
        const Tensor got = out.values();
        EXPECT_TRUE(near(got, want, 2e-5, 1.01 * half_ulp(dtype) + 1e-5))
            << name_of(dtype) << " " << rows << " x " << groups << " x " << size;
        args.out = args.x;
        ops::layer_norm(ctx, args);  // in place
        EXPECT_TRUE(same_bits(there.values(), got)) << name_of(dtype) << " " << size;
      }
  }
}

TEST(CudaRowOptions, ScatteredRows) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int64_t size : {1, 33, 128, 257}) {
      std::vector<int32_t> rows(30);
      std::iota(rows.begin(), rows.end(), 0);
      std::shuffle(rows.begin(), rows.end(), random.engine());
      rows.resize(static_cast<size_t>(random.integer(1, 30)));
      const Tensor x = rounded(random.matrix(std::ssize(rows), size), dtype);
      const Tensor before = rounded(random.matrix(30, size), dtype);
      const DeviceMatrix from(ctx, random, x, dtype), to(ctx, random, before, dtype);
      ops::scatter_rows(ctx, {from.tensor(), to_device(ctx, indices(rows)), to.tensor()});
      for (int64_t i = 0; i < std::ssize(rows); ++i)
        std::copy_n(x.row<float>(i), size, before.row<float>(rows[static_cast<size_t>(i)]));
      EXPECT_TRUE(same_bits(to.values(), before)) << name_of(dtype) << " " << size;
    }
  }
}

TEST(CudaRowOptions, CombinedRows) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int64_t size : {1, 33, 257}) {
      const Tensor x = rounded(random.matrix(9, size), dtype), factors = random.matrix(4, 2),
                   want({4, size}, DType::kF32);
      const Tensor places = indices({7, -1, -1, -1, 0, 8, 3, 3}).reshape({4, 2});
      const DeviceMatrix from(ctx, random, x, dtype), to(ctx, random, 4, size, dtype);
      ops::combine_rows(
          ctx, {from.tensor(), to_device(ctx, places), to_device(ctx, factors), to.tensor()});
      reference::combine_rows({x, places, factors, want});
      const double share = dtype == DType::kF32 ? 1e-6 : dtype == DType::kF16 ? 1e-3 : 8e-3;
      EXPECT_TRUE(near(to.values(), want, share, share)) << name_of(dtype) << " " << size;
    }
  }
}

TEST(CudaRowOptions, SumsOfRanges) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int64_t size : {1, 33, 257}) {
      std::vector<int32_t> ranges;
      for (int i = 0; i < 5; ++i) {
        const auto begin = static_cast<int32_t>(random.integer(0, 29));
        ranges.insert(ranges.end(), {begin, static_cast<int32_t>(random.integer(begin + 1, 30))});
      }
      const Tensor x = rounded(random.matrix(30, size), dtype), want({5, size}, DType::kF32);
      const Tensor listed = indices(ranges).reshape({5, 2});
      const DeviceMatrix from(ctx, random, x, dtype), to(ctx, random, 5, size, dtype);
      ops::sum_ranges(ctx, {from.tensor(), to_device(ctx, listed), to.tensor()});
      reference::sum_ranges({x, listed, want});
      const double share = dtype == DType::kF32 ? 1e-5 : dtype == DType::kF16 ? 6e-4 : 5e-3;
      EXPECT_TRUE(near(to.values(), want, share, share)) << name_of(dtype) << " " << size;
      const DeviceMatrix sums(ctx, random, 5, size, DType::kF32);  // not rounded
      ops::sum_ranges(ctx, {from.tensor(), to_device(ctx, listed), sums.tensor()});
      EXPECT_TRUE(near(sums.values(), want, 1e-5, 1e-5)) << name_of(dtype) << " " << size;
    }
  }
}

TEST(CudaRowOptions, SoftCaps) {
  Random random;
  Context ctx = testing::cuda_context(DType::kBF16);
  for (const int64_t size : {1, 8, 33, 2049})
    for (const float cap : {0.5f, 30.0f}) {
      const Tensor x = random.matrix(3, size, 20.0f);
      x.row<float>(1)[0] = -std::numeric_limits<float>::infinity();
      const DeviceMatrix there(ctx, random, x, DType::kF32, random.pick({1, 4}));
      ops::soft_cap(ctx, {there.tensor(), cap});
      reference::soft_cap({x, cap});
      EXPECT_TRUE(near(there.values(), x, 1e-6, 1e-6)) << size << ", cap " << cap;
    }
}

TEST(CudaRowOptions, MergedAttention) {
  Random random;
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int64_t head_dim : {1, 7, 64, 256}) {
      const int64_t rows = 6, heads = random.integer(1, 4), size = heads * head_dim;
      const Tensor a = rounded(random.matrix(rows, size), dtype),
                   b = rounded(random.matrix(rows, size), dtype);
      const Tensor a_sums = random.matrix(rows, heads, 5.0f),
                   b_sums = random.matrix(rows, heads, 5.0f);
      b_sums.row<float>(1)[0] = 400.0f;  // a weighs nothing
      const Tensor want({rows, size}, DType::kF32);
      reference::merge_attention({a, b, a_sums, b_sums, want});
      // A set without keys: its row may hold anything.
      a_sums.row<float>(2)[0] = kNone;
      for (int64_t i = 0; i < head_dim; ++i) {
        a.row<float>(2)[i] = std::numeric_limits<float>::quiet_NaN();
        want.row<float>(2)[i] = b.row<float>(2)[i];
      }
      const DeviceMatrix left(ctx, random, a, dtype), right(ctx, random, b, dtype),
          out(ctx, random, rows, size, dtype), left_sums(ctx, random, a_sums, DType::kF32),
          right_sums(ctx, random, b_sums, DType::kF32);
      ops::MergeAttentionArgs args{left.tensor(), right.tensor(), left_sums.tensor(),
                                   right_sums.tensor(), out.tensor()};
      ops::merge_attention(ctx, args);
      const Tensor got = out.values();
      EXPECT_TRUE(near(got, want, 2e-6, 1.01 * half_ulp(dtype) + 1e-6))
          << name_of(dtype) << " heads of " << head_dim;
      args.out = args.a;
      ops::merge_attention(ctx, args);  // in place
      EXPECT_TRUE(same_bits(left.values(), got)) << name_of(dtype);
    }
  }
}

}  // namespace
}  // namespace tandem
