// Rotary positions on the device: angles, queries turned in place, keys on their way to pages.
#include <cmath>

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
using testing::to_device;

Tensor random_frequencies(Random& random, int64_t half) {
  const Tensor t({half}, DType::kF32);
  for (int64_t i = 0; i < half; ++i)
    t.data<float>()[i] =
        static_cast<float>(std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half)) *
                           (1 + 0.01 * static_cast<double>(random.integer(0, 9))));
  return t;
}

std::vector<int32_t> random_positions(Random& random, int64_t count) {
  std::vector<int32_t> positions(static_cast<size_t>(count));
  for (int32_t& p : positions)
    p = static_cast<int32_t>(random.pick<int64_t>({0, 1, random.integer(2, 500), 30000}));
  return positions;
}

// [tokens, 2 * half] of the reference.
Tensor random_angles(Random& random, int64_t tokens, int64_t half) {
  const Tensor out({tokens, 2 * half}, DType::kF32);
  reference::rotary_angles(
      {indices(random_positions(random, tokens)), random_frequencies(random, half), out});
  return out;
}

TEST(CudaRotary, Angles) {
  Random random;
  Context ctx = testing::cuda_context(DType::kF32);
  for (const int64_t half : {1, 3, 16, 64, 200}) {
    const int64_t tokens = random.integer(1, 9);
    const Tensor positions = indices(random_positions(random, tokens)),
                 frequencies = random_frequencies(random, half);
    const Tensor want({tokens, 2 * half}, DType::kF32);
    reference::rotary_angles({positions, frequencies, want});
    const DeviceMatrix out(ctx, random, tokens, 2 * half, DType::kF32);
    ops::rotary_angles(ctx, {to_device(ctx, positions), to_device(ctx, frequencies), out.tensor()});
    EXPECT_TRUE(near(out.values(), want, 2e-6, 0)) << half;
  }
}

TEST(CudaRotary, TurnsInPlace) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int head_dim : {2, 6, 16, 64, 256})
      for (const bool interleaved : {false, true}) {
        const int64_t tokens = random.integer(1, 6);
        const int heads = static_cast<int>(random.integer(1, 4));
        const int64_t half = random.pick<int64_t>({head_dim / 2, 1, (head_dim / 2 + 1) / 2});
        const Tensor angles = random_angles(random, tokens, half);
        const Tensor x = rounded(random.matrix(tokens, int64_t{heads} * head_dim), dtype);
        const DeviceMatrix there(ctx, random, x, dtype);
        const DeviceMatrix turns(ctx, random, angles, DType::kF32);
        ops::rotary(ctx, {there.tensor(), heads, head_dim, {turns.tensor(), interleaved}});
        reference::rotary({x, heads, head_dim, {angles, interleaved}});
        EXPECT_TRUE(near(there.values(), x, 1e-6, 1.01 * half_ulp(dtype) + 2e-7))
            << name_of(dtype) << " " << heads << " heads of " << head_dim << ", " << half
            << " pairs" << (interleaved ? ", interleaved" : "");
      }
  }
}

// A cache of `tokens` slots in pages of 3, in 8 bits or not, on the host and on the device.
struct Cache {
  KvPages want, pages;
  std::vector<int32_t> slots;

  Cache(Context& ctx, Random& random, int64_t tokens, int64_t heads, int64_t head_dim, DType type) {
    constexpr int64_t kBlock = 3;
    const int64_t blocks = (tokens - 1) / kBlock + 1;
    const KvLayout layout = random.pick({KvLayout::kNHD, KvLayout::kHND});
    const bool nhd = layout == KvLayout::kNHD;
    const auto scale = page_scale_type(type);
    const Shape shape = {blocks, 2, nhd ? kBlock : heads, nhd ? heads : kBlock, head_dim};
    want = {Tensor::zeros(shape, scale ? type : DType::kF32), layout};
    pages = {to_device(ctx, Tensor::zeros(shape, type)), layout};
    if (scale) {
      want.scales = Tensor::zeros({shape[0], 2, shape[2], shape[3]}, *scale);
      pages.scales = to_device(ctx, want.scales);
    }
    slots.resize(static_cast<size_t>(tokens));
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), random.engine());
    slots[static_cast<size_t>(random.integer(0, tokens - 1))] = -1;
  }
  // As f32, a row for each row of a head.
  static Tensor values(const Tensor& data, const Tensor& scales) {
    const int64_t head_dim = data.dim(4);
    const Tensor out({data.size() / head_dim, head_dim}, DType::kF32);
    if (scales.empty()) {
      const auto* bytes = static_cast<const std::byte*>(data.raw());
      const std::vector<float> all = testing::from_type({bytes, data.bytes()}, data.dtype());
      std::ranges::copy(all, out.data<float>());
      return out;
    }
    for (int64_t i = 0; i < data.size(); ++i)
      out.data<float>()[i] = testing::value_in_8_bits(data, scales, i);
    return out;
  }
};

TEST(CudaRotary, KeysTurnOnTheirWayToPages) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    std::vector<DType> types = testing::types_in_8_bits();
    types.push_back(dtype);
    for (const int64_t head_dim : {2, 16, 40, 128})
      for (const DType type : types) {
        const bool in_8_bits = page_scale_type(type).has_value();
        const int64_t tokens = random.integer(1, 9), heads = random.integer(1, 3);
        const Tensor angles =
            random_angles(random, tokens, random.pick({head_dim / 2, int64_t{1}}));
        const bool interleaved = random.integer(0, 1) == 1;
        const Tensor k = rounded(random.matrix(tokens, heads * head_dim), dtype),
                     v = rounded(random.matrix(tokens, heads * head_dim), dtype);
        const DeviceMatrix keys(ctx, random, k, dtype), values(ctx, random, v, dtype);
        const Cache cache(ctx, random, tokens, heads, head_dim, type);
        reference::write_kv({k, v, indices(cache.slots), cache.want, {angles, interleaved}});
        ops::write_kv(ctx, {keys.tensor(),
                            values.tensor(),
                            to_device(ctx, indices(cache.slots)),
                            cache.pages,
                            {to_device(ctx, angles), interleaved}});
        const Tensor want = Cache::values(cache.want.data, cache.want.scales);
        const Tensor got = Cache::values(ctx.on_host(cache.pages.data),
                                         in_8_bits ? ctx.on_host(cache.pages.scales) : Tensor());
        // In 8 bits what lies between two values may go to either.
        EXPECT_TRUE(in_8_bits ? near(got, want, type == DType::kI8 ? 0.05 : 0.02, 0.13)
                              : near(got, want, 1e-6, 1.01 * half_ulp(dtype) + 2e-7))
            << name_of(type) << " of " << name_of(dtype) << " " << heads << " heads of "
            << head_dim;
        int64_t different = 0;
        for (int64_t i = 0; i < want.size(); ++i)
          different += std::abs(got.data<float>()[i] - want.data<float>()[i]) >
                       1e-6 + 1.01 * half_ulp(dtype) * std::abs(want.data<float>()[i]);
        EXPECT_LE(different, want.size() / 50);
        EXPECT_TRUE(testing::same_bits(keys.values(), k)) << "k itself stays";
      }
  }
}

}  // namespace
}  // namespace tandem
