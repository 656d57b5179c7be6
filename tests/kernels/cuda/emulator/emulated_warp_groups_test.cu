// The emulator's products of warp groups and boxes of matrices; what it must not hide.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/cuda/hardware/tensor_copy.cuh"
#include "kernels/cuda/hardware/warpgroup.cuh"
#include "kernels/cuda/launch.cuh"
#include "tests/support/ranks/device_array.h"

namespace tandem::cuda {
namespace {
namespace emulated_warp_groups_test {

using T = __nv_bfloat16;

constexpr int kRows = 64, kColumns = 128, kSteps = kTileK / 16;

// What a kernel of the tests below gets wrong.
enum class Fault {
  kNone,
  kByThreads,   // nothing: threads bring the tiles, and not copies
  kNotKnown,    // so, and stores_before_products is left out
  kStoredLate,  // so, and a thread stores once more before the wait
  kNoFence,
  kReadEarly,   // sums before the wait
  kWriteEarly,  // the same
  kWeakWait,    // for the batch before
  kNoWait,
  kNoCopyWait,
  kFilledEarly,  // a tile, before the wait
  kOneWarpLess,
  kOtherTile,  // of a warp
  kMisplaced   // the tile
};

struct Tiles {
  alignas(kTileAlignment) unsigned char a[kRows * kTileRowBytes];
  alignas(kTileAlignment) unsigned char b[kColumns * kTileRowBytes];
};

// A row-major [rows, kTileK] matrix as a tile.
__device__ void store_tile(const T* matrix, int rows, unsigned char* tile) {
  for (int i = static_cast<int>(threadIdx.x); i < rows * 8; i += kGroupThreads) {
    const int row = i / 8, piece = i % 8;
    std::memcpy(tile + row * kTileRowBytes + (piece ^ row % 8) * 16, matrix + i * 8, 16);
  }
}

// d [64, 128] = A B^T of one tile of k, once more added to itself.
template <Fault kFault>
__global__ void product(const TensorMap map_a, const TensorMap map_b, const T* a, const T* b,
                        float* out) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(memory);
  __shared__ CopyBarrier full;
  const bool by_threads =
      kFault == Fault::kByThreads || kFault == Fault::kNotKnown || kFault == Fault::kStoredLate;
  auto* begin = memory + -reinterpret_cast<uintptr_t>(memory) % kTileAlignment;
  if (kFault == Fault::kMisplaced) begin += 128;
  Tiles& tiles = *reinterpret_cast<Tiles*>(begin);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == 0) {
    make_copy_barrier(&full, 1);
    copy_barriers_made();
    arrive_and_expect(&full, by_threads ? 0 : sizeof(Tiles));
    if (!by_threads) tensor_copy(tiles.a, map_a, 0, 0, &full);
    if (!by_threads) tensor_copy(tiles.b, map_b, 0, 0, &full);
  }
  if (by_threads) {
    store_tile(a, kRows, tiles.a);
    store_tile(b, kColumns, tiles.b);
    if (kFault != Fault::kNotKnown) stores_before_products();
  }
  __syncthreads();
  if (kFault != Fault::kNoCopyWait) wait_for_phase(&full, 0);
  float sums[64];
  for (float& sum : sums) sum = 1.0f;
  const bool other = kFault == Fault::kOtherTile && warp == 2;
  const uint64_t of_a = tile_descriptor(tiles.a), of_b = tile_descriptor(other ? tiles.a : tiles.b);
  const auto batch = [&](bool adds) {
    if (kFault != Fault::kNoFence) products_fence();
    const int steps = kFault == Fault::kOneWarpLess && warp == 1 && adds ? kSteps - 1 : kSteps;
    for (int k = 0; k < steps; ++k)
      multiply_m64n128k16<T>(sums, later_in_k(of_a, k), later_in_k(of_b, k), adds || k > 0);
    products_commit();
  };
  batch(false);
  products_wait<1>();
  batch(true);
  if (kFault == Fault::kReadEarly) out[0] = sums[0];
  if (kFault == Fault::kWriteEarly) sums[3] += 1.0f;
  if (kFault == Fault::kStoredLate) tiles.a[threadIdx.x * 64] ^= 1;
  if (kFault == Fault::kFilledEarly) __syncthreads();  // who waited for the copies is met
  if (kFault == Fault::kFilledEarly && threadIdx.x == 0) {
    arrive_and_expect(&full, sizeof(tiles.b));
    tensor_copy(tiles.b, map_b, 0, 0, &full);
  }
  if (kFault == Fault::kWeakWait) {
    products_wait<1>();
  } else if (kFault != Fault::kNoWait) {
    products_wait<0>();
  }
  for (int i = 0; i < 64; ++i) {
    if (kFault == Fault::kReadEarly && threadIdx.x == 0 && i == 0) continue;
    const int row = warp * 16 + lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    out[row * kColumns + column] = sums[i];
  }
  if (kFault == Fault::kWeakWait) products_wait<0>();
}

std::vector<T> random_matrix(int rows, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> matrix(static_cast<size_t>(rows * kTileK));
  for (T& value : matrix) value = T(normal(random));
  return matrix;
}

struct Result {
  std::vector<float> found, expected;
  // The largest difference; NaN counts as one.
  double difference() const {
    double most = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const double d = std::abs(double{found[i]} - expected[i]);
      most = std::isnan(d) ? INFINITY : std::max(most, d);
    }
    return most;
  }
};

// Rows and columns of the matrices behind these are zeros.
template <Fault kFault>
Result run(int rows_there = kRows, int k_there = kTileK) {
  const std::vector<T> a = random_matrix(kRows, 1), b = random_matrix(kColumns, 2);
  DeviceArray<T> device_a(a), device_b(b);
  DeviceArray<float> out(kRows * kColumns);
  TensorMap map_a, map_b;
  EXPECT_TRUE(
      make_tensor_map(map_a, device_a.get(), true, rows_there, k_there, kTileRowBytes, kRows));
  EXPECT_TRUE(
      make_tensor_map(map_b, device_b.get(), true, kColumns, kTileK, kTileRowBytes, kColumns));
  TANDEM_LAUNCH(product<kFault>, 1, kGroupThreads, sizeof(Tiles) + kTileAlignment, nullptr, map_a,
                map_b, device_a.get(), device_b.get(), out.get());
  Result result{out.values(), std::vector<float>(kRows * kColumns)};
  for (int i = 0; i < rows_there; ++i)
    for (int j = 0; j < kColumns; ++j) {
      double sum = 0;
      for (int k = 0; k < k_there; ++k)
        sum += double{float(a[i * kTileK + k])} * float(b[j * kTileK + k]);
      result.expected[static_cast<size_t>(i * kColumns + j)] = static_cast<float>(2 * sum);
    }
  return result;
}

TEST(CudaEmulatorWarpGroups, ProductsOfTilesThatCopiesBring) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    cuda_emulator::set_seed(seed);
    EXPECT_LT(run<Fault::kNone>().difference(), 1e-3);
  }
  cuda_emulator::set_seed(1);
  EXPECT_LT(run<Fault::kNone>(51, 40).difference(), 1e-3);
}

TEST(CudaEmulatorWarpGroups, ProductsOfTilesThatThreadsBring) {
  EXPECT_LT(run<Fault::kByThreads>().difference(), 1e-3);
}

TEST(CudaEmulatorWarpGroups, SumsBeforeTheirWaitAreNone) {
  EXPECT_EQ(run<Fault::kReadEarly>().difference(), INFINITY);
  EXPECT_EQ(run<Fault::kWeakWait>().difference(), INFINITY);
}

TEST(CudaEmulatorWarpGroupsDeathTest, Sums) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run<Fault::kNoFence>(), "products_fence was not called since the last wait");
  EXPECT_DEATH(run<Fault::kWriteEarly>(), "sums were written while a product was under way");
  EXPECT_DEATH(run<Fault::kNoWait>(), "a block ends while products are under way");
}

// With several seeds: a copy may have come, or a product have read its tiles, by chance.
template <Fault kFault>
void run_seeds() {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    cuda_emulator::set_seed(seed);
    run<kFault>();
  }
}

TEST(CudaEmulatorWarpGroupsDeathTest, Tiles) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run<Fault::kNotKnown>(), "stores_before_products was not called");
  EXPECT_DEATH(run<Fault::kNoCopyWait>(), "a tile is read whose copy has not been waited for");
  EXPECT_DEATH(run<Fault::kFilledEarly>(), "a copy fills a tile that a product under way reads");
  // (UBSan sees it first.)
  EXPECT_DEATH(run<Fault::kMisplaced>(),
               "does not begin at a multiple of 1024 bytes|requires 1024 byte alignment");
  EXPECT_DEATH(run_seeds<Fault::kStoredLate>(), "a product reads what threads have stored");
}

TEST(CudaEmulatorWarpGroupsDeathTest, WarpsOfAGroup) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run<Fault::kOneWarpLess>(), "have issued different numbers of products");
  EXPECT_DEATH(run<Fault::kOtherTile>(), "warps of a group have different operands");
}

}  // namespace emulated_warp_groups_test
}  // namespace
}  // namespace tandem::cuda
