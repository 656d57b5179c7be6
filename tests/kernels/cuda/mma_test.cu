// kernels/cuda/mma.cuh against plain matrix products: the layouts of fragments, and that copies are
// not there before they have been awaited.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/cuda/mma.cuh"
#include "tests/support/ranks/device_array.h"

namespace tandem::cuda {
namespace {

// C [16, 8] = A [16, 16] B [16, 8]. A by rows; B by rows (through the transposing load) or by
// columns.
template <class T, bool kBByRows, bool kPairs>
__global__ void product(const T* a, const T* b, float* c) {
  wait_for_earlier_kernels();
  __shared__ __align__(16) T tile_a[16 * 16], tile_b[16 * 8];
  const int lane = threadIdx.x;
  cp_async_16(tile_a + lane * 8, a + lane * 8);
  if (lane < 16) cp_async_16(tile_b + lane * 8, b + lane * 8);
  cp_async_commit();
  cp_async_wait<0>();
  __syncwarp();
  uint32_t of_a[4], of_b[2];
  const T* a_rows = tile_a + lane % 16 * 16 + lane / 16 * 8;
  if (kPairs) {  // the same four matrices in two loads
    uint32_t left[2], right[2];
    ldmatrix_x2(left, tile_a + lane % 16 * 16);
    ldmatrix_x2(right, tile_a + lane % 16 * 16 + 8);
    of_a[0] = left[0], of_a[1] = left[1], of_a[2] = right[0], of_a[3] = right[1];
  } else {
    ldmatrix_x4(of_a, a_rows);
  }
  if (kBByRows) {
    uint32_t twice[4];
    ldmatrix_x4_trans(twice, tile_b + lane % 16 * 8);
    ldmatrix_x2_trans(of_b, tile_b + lane % 16 * 8);
    if (twice[0] != of_b[0] || twice[3] != of_b[1]) __trap();
  } else {
    ldmatrix_x2(of_b, tile_b + lane % 8 * 16 + lane / 8 % 2 * 8);
  }
  float sums[4] = {1, 1, 1, 1};
  mma_m16n8k16<T>(sums, of_a, of_b);
  for (int i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sums[i];
}

template <class T, bool kBByRows, bool kPairs>
void check_product(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> a(16 * 16), b(16 * 8);
  for (T& value : a) value = T(normal(random));
  for (T& value : b) value = T(normal(random));
  DeviceArray<T> device_a(a), device_b(b);
  DeviceArray<float> out(16 * 8);
  TANDEM_LAUNCH((product<T, kBByRows, kPairs>), 1, 32, 0, nullptr, device_a.get(), device_b.get(),
                out.get());
  const auto c = out.values();
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) {
      double sum = 1;
      for (int k = 0; k < 16; ++k)
        sum += double{float(a[i * 16 + k])} * float(b[kBByRows ? k * 8 + j : j * 16 + k]);
      EXPECT_NEAR(c[i * 8 + j], sum, 1e-4) << "row " << i << ", column " << j;
    }
}

TEST(Mma, ProductsOfBothTypes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  check_product<__nv_bfloat16, false, false>(seed);
  check_product<__nv_bfloat16, true, true>(seed);
  check_product<__half, true, false>(seed);
  check_product<__half, false, true>(seed);
}

#if defined(TANDEM_CUDA_EMULATED)  // a GPU may copy at once, and its faults end the context
template <int kLeft>
__global__ void pipeline(const float4* in, float* seen) {
  wait_for_earlier_kernels();
  __shared__ float4 stages[3];
  stages[0] = stages[1] = stages[2] = make_float4(-1, -1, -1, -1);
  for (int i = 0; i < 3; ++i) {
    cp_async_16(&stages[i], in + i, i != 1);
    cp_async_commit();
  }
  cp_async_wait<kLeft>();
  for (int i = 0; i < 3; ++i) seen[i] = stages[i].w;
}

TEST(Mma, CopiesAreThereOnlyAfterTheirWait) {
  DeviceArray<float> in({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const auto* from = reinterpret_cast<const float4*>(in.get());
  DeviceArray<float> seen(3);
  TANDEM_LAUNCH((pipeline<0>), 1, 1, 0, nullptr, from, seen.get());
  EXPECT_EQ(seen.values(), (std::vector<float>{3, 0, 11}));  // the second was to be zeros
  TANDEM_LAUNCH((pipeline<1>), 1, 1, 0, nullptr, from, seen.get());
  EXPECT_EQ(seen.values(), (std::vector<float>{3, 0, -1}));
  TANDEM_LAUNCH((pipeline<2>), 1, 1, 0, nullptr, from, seen.get());
  EXPECT_EQ(seen.values(), (std::vector<float>{3, -1, -1}));
  TANDEM_LAUNCH((pipeline<3>), 1, 1, 0, nullptr, from, seen.get());
  EXPECT_EQ(seen.values(), (std::vector<float>{-1, -1, -1}));
}

__global__ void misaligned(const float* in) {
  wait_for_earlier_kernels();
  __shared__ float4 tile[2];
  cp_async_16(tile, in + 1);
}

TEST(MmaDeathTest, MisalignedAddresses) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  DeviceArray<float> in(8);
  EXPECT_DEATH(TANDEM_LAUNCH(misaligned, 1, 1, 0, nullptr, in.get()), "not 16-byte aligned");
}
#endif

__global__ void sums_of_warp(float* out) {
  wait_for_earlier_kernels();
  out[threadIdx.x] = warp_sum(static_cast<float>(threadIdx.x)) * 1000 +
                     warp_max(threadIdx.x == 5 ? 7.0f : -static_cast<float>(threadIdx.x));
}

TEST(Mma, SumAndMaximumOfAWarp) {
  DeviceArray<float> out(32);
  TANDEM_LAUNCH(sums_of_warp, 1, 32, 0, nullptr, out.get());
  EXPECT_EQ(out.values(), std::vector<float>(32, 496007));
}

TEST(Float16, ConversionsRoundToTheNearestAndBack) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float half = __half2float(__ushort_as_half(bits));
    const float brain = __bfloat162float(__ushort_as_bfloat16(bits));
    if (std::isnan(half))
      EXPECT_TRUE(std::isnan(__half2float(__float2half(half))));
    else
      ASSERT_EQ(__half_as_ushort(__float2half(half)), bits);
    if (!std::isnan(brain)) {
      ASSERT_EQ(__bfloat16_as_ushort(__float2bfloat16(brain)), bits);
    }
    if ((bits & 0x7fff) >= 0x7bff) continue;
    // Halfway to the next one in size: to the even one of the two.
    const float next = __half2float(__ushort_as_half(static_cast<uint16_t>(bits + 1)));
    const float middle = (half + next) / 2;
    ASSERT_EQ(__half_as_ushort(__float2half(middle)), bits + bits % 2) << half;
    ASSERT_EQ(__half_as_ushort(__float2half(std::nextafter(middle, half))), bits);
    ASSERT_EQ(__half_as_ushort(__float2half(std::nextafter(middle, next))), bits + 1);
  }
  EXPECT_EQ(__half_as_ushort(__float2half(65519.99f)), 0x7bff);
  EXPECT_EQ(__half_as_ushort(__float2half(65520.0f)), 0x7c00);
  EXPECT_EQ(__half_as_ushort(__float2half(0x1p-24f)), 1);
  EXPECT_EQ(__half_as_ushort(__float2half(0x1p-25f)), 0);
  EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16(1.00390625f)), 0x3f80);  // ties to even
  EXPECT_EQ(__bfloat16_as_ushort(__float2bfloat16(1.01171875f)), 0x3f82);
}

}  // namespace
}  // namespace tandem::cuda
