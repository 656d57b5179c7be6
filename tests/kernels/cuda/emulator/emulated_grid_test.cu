// Cooperative launches of the emulator: blocks that wait for each other, and what it does not let
// pass.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "kernels/cuda/hardware/device_scope.cuh"
#include "kernels/cuda/launch.cuh"
#include "tests/support/ranks/device_array.h"

namespace tandem::cuda {
namespace {

constexpr unsigned kGridThreads = 40;
constexpr uint32_t kRounds = 3;

// What blocks do wrong; or nothing.
enum class GridFault { kNone, kOneEndsEarly, kOneNeverTells };

// In each round each thread adds up what those of its number in all blocks said in the round
// before.
__global__ void sum_of_grid(uint32_t* counter, uint32_t* said, GridFault fault) {
  wait_for_earlier_kernels();
  const unsigned blocks = gridDim.x, block = blockIdx.x;
  const size_t values = size_t{blocks} * kGridThreads;
  said[block * kGridThreads + threadIdx.x] = block + threadIdx.x;
  for (uint32_t round = 1; round <= kRounds; ++round) {
    if (fault == GridFault::kOneEndsEarly && block == 0 && round == kRounds) return;
    __syncthreads();
    if (threadIdx.x == 0) {
      if (fault != GridFault::kOneNeverTells || block > 0) add_release_device(counter, 1);
      while (!has_reached(counter, round * blocks)) {
      }
    }
    __syncthreads();
    uint32_t sum = 0;
    for (unsigned b = 0; b < blocks; ++b)
      sum += said[(round - 1) * values + b * kGridThreads + threadIdx.x];
    said[round * values + block * kGridThreads + threadIdx.x] = sum + block;
  }
}

std::vector<uint32_t> run_grid(unsigned blocks, GridFault fault, uint32_t first = 0) {
  DeviceArray<uint32_t> counter({first}), said(size_t{blocks} * kGridThreads * (kRounds + 1));
  TANDEM_LAUNCH_COOPERATIVE(sum_of_grid, blocks, kGridThreads, 0, nullptr, counter.get(),
                            said.get(), fault);
  return said.values();
}

TEST(CudaGrids, BlocksSeeEachOther) {
  for (const unsigned blocks : {1u, 3u, 132u}) {
    const std::vector<uint32_t> said = run_grid(blocks, GridFault::kNone);
    std::vector<uint32_t> want(size_t{blocks} * kGridThreads), next = want;
    for (unsigned i = 0; i < want.size(); ++i) want[i] = i / kGridThreads + i % kGridThreads;
    for (uint32_t round = 1; round <= kRounds; ++round) {
      for (unsigned t = 0; t < kGridThreads; ++t) {
        uint32_t sum = 0;
        for (unsigned b = 0; b < blocks; ++b) sum += want[b * kGridThreads + t];
        for (unsigned b = 0; b < blocks; ++b) next[b * kGridThreads + t] = sum + b;
      }
      want = next;
      for (unsigned i = 0; i < want.size(); ++i)
        ASSERT_EQ(said[round * want.size() + i], want[i]) << blocks << ", " << round << ", " << i;
    }
  }
}

TEST(CudaGrids, MoreBlocksThanFitAreNotLaunched) {
  setenv("TANDEM_EMULATOR_MULTIPROCESSORS", "2", 1);
  DeviceArray<uint32_t> counter({0}), said(size_t{8} * kGridThreads * (kRounds + 1));
  // Of that much shared memory a multiprocessor holds one block.
  const auto launch = [&](unsigned blocks) {
    TANDEM_LAUNCH_COOPERATIVE(sum_of_grid, blocks, kGridThreads, 200 << 10, nullptr, counter.get(),
                              said.get(), GridFault::kNone);
    return cudaGetLastError();
  };
  EXPECT_EQ(launch(3), cudaErrorCooperativeLaunchTooLarge);
  EXPECT_EQ(launch(2), cudaSuccess);
  unsetenv("TANDEM_EMULATOR_MULTIPROCESSORS");
}

void run_apart() {
  DeviceArray<uint32_t> counter({0}), said(size_t{2} * kGridThreads * (kRounds + 1));
  TANDEM_LAUNCH(sum_of_grid, 2, kGridThreads, 0, nullptr, counter.get(), said.get(),
                GridFault::kNone);
}

TEST(CudaGridsDeathTest, FaultsEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run_grid(3, GridFault::kOneEndsEarly),
               "a block has ended before a barrier of the grid");
  EXPECT_DEATH(run_grid(3, GridFault::kOneNeverTells), "all blocks of a cooperative launch wait");
  EXPECT_DEATH(run_apart(), "a launch that is not cooperative");
}

}  // namespace
}  // namespace tandem::cuda
