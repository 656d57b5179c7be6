// kernels/cuda/hardware/warpgroup.cuh and tensor_copy.cuh against plain matrix products:
// descriptors, swizzles, the layout of sums, boxes beyond a matrix, copies to both blocks of a
// cluster.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/hardware/cluster.cuh"
#include "kernels/cuda/hardware/tensor_copy.cuh"
#include "kernels/cuda/hardware/warpgroup.cuh"
#include "kernels/cuda/launch.cuh"
#include "tests/support/ranks/device_array.h"

namespace tandem::cuda {
namespace {
namespace warp_groups_test {

constexpr int kRows = 64, kColumns = 128;

struct Tiles {
  alignas(kTileAlignment) unsigned char a[kRows * kTileRowBytes];
  alignas(kTileAlignment) unsigned char b[kColumns * kTileRowBytes];
  CopyBarrier full;
};
constexpr size_t kShared = sizeof(Tiles) + kTileAlignment;

// Who brings the tiles: each of `kBlocks` blocks a part of A for all and B for itself, or threads.
template <class T, int kBlocks, bool kByThreads>
__device__ void bring(Tiles& tiles, const TensorMap& map_a, const TensorMap& map_b, const T* a,
                      const T* b) {
  const auto store = [](const T* matrix, int rows, unsigned char* tile) {
    for (int i = static_cast<int>(threadIdx.x); i < rows * 8; i += kGroupThreads) {
      const int row = i / 8, piece = i % 8;
      std::memcpy(tile + row * kTileRowBytes + (piece ^ row % 8) * 16, matrix + i * 8, 16);
    }
  };
  if (kByThreads) {
    store(a, kRows, tiles.a);
    store(b, kColumns, tiles.b);
    stores_before_products();
  } else if (threadIdx.x == 0) {
    const int part = kRows / kBlocks * static_cast<int>(blockIdx.x % kBlocks);
    arrive_and_expect(&tiles.full, sizeof(tiles.a) + sizeof(tiles.b));
    if (kBlocks == 1) {
      tensor_copy(tiles.a, map_a, 0, 0, &tiles.full);
    } else {
      tensor_copy_to_blocks(tiles.a + part * kTileRowBytes, map_a, part, 0, &tiles.full, kBlocks);
    }
    tensor_copy(tiles.b, map_b, 0, 0, &tiles.full);
  }
  if (!kByThreads) wait_for_phase(&tiles.full, 0);
  __syncthreads();
}

// In each block: out [64, 128] = A B^T, in two batches of 32 elements of k.
template <class T, int kBlocks, bool kByThreads>
__global__ void product(const __grid_constant__ TensorMap map_a,
                        const __grid_constant__ TensorMap map_b, const T* a, const T* b,
                        float* out) {
  wait_for_earlier_kernels();
#if TANDEM_WARP_GROUP_PRODUCTS
  TANDEM_DYNAMIC_SHARED(memory);
  Tiles& tiles =
      *reinterpret_cast<Tiles*>(memory + -reinterpret_cast<uintptr_t>(memory) % kTileAlignment);
  if (threadIdx.x == 0) {
    make_copy_barrier(&tiles.full, 1);
    copy_barriers_made();
  }
  cluster_barrier();
  bring<T, kBlocks, kByThreads>(tiles, map_a, map_b, a, b);
  float sums[64];
  const uint64_t of_a = tile_descriptor(tiles.a), of_b = tile_descriptor(tiles.b);
  for (int first = 0; first < 4; first += 2) {
    pin(sums);
    products_fence();
    for (int k = first; k < first + 2; ++k)
      multiply_m64n128k16<T>(sums, later_in_k(of_a, k), later_in_k(of_b, k), k > 0);
    products_commit();
    pin(sums);
    products_wait<0>();
    pin(sums);
  }
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const int row = warp * 16 + lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    out[(static_cast<int>(blockIdx.x) * kRows + row) * kColumns + column] = sums[i];
  }
  cluster_barrier();
#else
  __trap();
#endif
}

template <class T>
std::vector<T> random_matrix(int rows, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> matrix(static_cast<size_t>(rows * kTileK));
  for (T& value : matrix) value = T(normal(random));
  return matrix;
}

// Of A, `rows` rows and `k` columns are there.
template <class T, int kBlocks, bool kByThreads>
void check(int rows = kRows, int k = kTileK) {
  const auto a = random_matrix<T>(kRows, 1), b = random_matrix<T>(kColumns, 2);
  DeviceArray<T> device_a(a), device_b(b);
  DeviceArray<float> out(kBlocks * kRows * kColumns);
  TensorMap map_a, map_b;
  const bool bf16 = std::is_same_v<T, __nv_bfloat16>;
  ASSERT_TRUE(
      make_tensor_map(map_a, device_a.get(), bf16, rows, k, kTileRowBytes, kRows / kBlocks));
  ASSERT_TRUE(
      make_tensor_map(map_b, device_b.get(), bf16, kColumns, kTileK, kTileRowBytes, kColumns));
  TANDEM_LAUNCH_CLUSTERS((product<T, kBlocks, kByThreads>), kBlocks, kGroupThreads, kBlocks,
                         kShared, nullptr, map_a, map_b, device_a.get(), device_b.get(), out.get());
  const std::vector<float> found = out.values();
  int wrong = 0;
  for (int i = 0; i < kBlocks * kRows; ++i)
    for (int j = 0; j < kColumns; ++j) {
      double sum = 0;
      for (int at = 0; at < k && i % kRows < rows; ++at)
        sum += double{float(a[i % kRows * kTileK + at])} * float(b[j * kTileK + at]);
      wrong += !(std::abs(found[static_cast<size_t>(i * kColumns + j)] - sum) < 1e-3);
    }
  EXPECT_EQ(wrong, 0) << kBlocks << " blocks, " << rows << " x " << k;
}

bool are_there() { return has_products(product<__half, 1, true>); }

TEST(CudaWarpGroups, TilesThatThreadsBring) {
  if (!are_there()) GTEST_SKIP() << "no code for sm_90a";
  check<__half, 1, true>();
  check<__nv_bfloat16, 1, true>();
}

TEST(CudaWarpGroups, TilesThatCopiesBring) {
  if (!are_there()) GTEST_SKIP() << "no code for sm_90a";
  check<__half, 1, false>();
  check<__nv_bfloat16, 1, false>();
  check<__nv_bfloat16, 1, false>(51, 40);
}

TEST(CudaWarpGroups, TilesThatBlocksOfAClusterBring) {
  if (!are_there()) GTEST_SKIP() << "no code for sm_90a";
  check<__half, 2, false>();
  check<__nv_bfloat16, 2, false>(39, 56);
}

}  // namespace warp_groups_test
}  // namespace
}  // namespace tandem::cuda
