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

constexpr unsigned kThreads = 40;
constexpr uint32_t kRounds = 3;

// What blocks do wrong; or nothing.
enum class Fault { kNone, kOneEndsEarly, kOneNeverTells };

// In each round each thread adds up what those of its number in all blocks said in the round
// before.
__global__ void sum_of_grid(uint32_t* counter, uint32_t* said, Fault fault) {
  wait_for_earlier_kernels();
  const unsigned blocks = gridDim.x, block = blockIdx.x;
  const size_t values = size_t{blocks} * kThreads;
  said[block * kThreads + threadIdx.x] = block + threadIdx.x;
  for (uint32_t round = 1; round <= kRounds; ++round) {
    if (fault == Fault::kOneEndsEarly && block == 0 && round == kRounds) return;
    __syncthreads();
    if (threadIdx.x == 0) {
      if (fault != Fault::kOneNeverTells || block > 0) add_release_device(counter, 1);
      while (!has_reached(counter, round * blocks)) {
      }
    }
    __syncthreads();
    uint32_t sum = 0;
    for (unsigned b = 0; b < blocks; ++b)
      sum += said[(round - 1) * values + b * kThreads + threadIdx.x];
    said[round * values + block * kThreads + threadIdx.x] = sum + block;
  }
}

std::vector<uint32_t> run(unsigned blocks, Fault fault, uint32_t first = 0) {
  DeviceArray<uint32_t> counter({first}), said(size_t{blocks} * kThreads * (kRounds + 1));
  TANDEM_LAUNCH_COOPERATIVE(sum_of_grid, blocks, kThreads, 0, nullptr, counter.get(), said.get(),
                            fault);
  return said.values();
}

TEST(CudaGrids, BlocksSeeEachOther) {
  for (const unsigned blocks : {1u, 3u, 132u}) {
    const std::vector<uint32_t> said = run(blocks, Fault::kNone);
    std::vector<uint32_t> want(size_t{blocks} * kThreads), next = want;
    for (unsigned i = 0; i < want.size(); ++i) want[i] = i / kThreads + i % kThreads;
    for (uint32_t round = 1; round <= kRounds; ++round) {
      for (unsigned t = 0; t < kThreads; ++t) {
        uint32_t sum = 0;
        for (unsigned b = 0; b < blocks; ++b) sum += want[b * kThreads + t];
        for (unsigned b = 0; b < blocks; ++b) next[b * kThreads + t] = sum + b;
      }
      want = next;
      for (unsigned i = 0; i < want.size(); ++i)
        ASSERT_EQ(said[round * want.size() + i], want[i]) << blocks << ", " << round << ", " << i;
    }
  }
}

TEST(CudaGrids, MoreBlocksThanFitAreNotLaunched) {
  setenv("TANDEM_EMULATOR_MULTIPROCESSORS", "2", 1);
  DeviceArray<uint32_t> counter({0}), said(size_t{8} * kThreads * (kRounds + 1));
  // Of that much shared memory a multiprocessor holds one block.
  const auto launch = [&](unsigned blocks) {
    TANDEM_LAUNCH_COOPERATIVE(sum_of_grid, blocks, kThreads, 200 << 10, nullptr, counter.get(),
                              said.get(), Fault::kNone);
    return cudaGetLastError();
  };
  EXPECT_EQ(launch(3), cudaErrorCooperativeLaunchTooLarge);
  EXPECT_EQ(launch(2), cudaSuccess);
  unsetenv("TANDEM_EMULATOR_MULTIPROCESSORS");
}

void run_apart() {
  DeviceArray<uint32_t> counter({0}), said(size_t{2} * kThreads * (kRounds + 1));
  TANDEM_LAUNCH(sum_of_grid, 2, kThreads, 0, nullptr, counter.get(), said.get(), Fault::kNone);
}

TEST(CudaGridsDeathTest, FaultsEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run(3, Fault::kOneEndsEarly), "a block has ended before a barrier of the grid");
  EXPECT_DEATH(run(3, Fault::kOneNeverTells), "all blocks of a cooperative launch wait");
  EXPECT_DEATH(run_apart(), "a launch that is not cooperative");
}

}  // namespace
}  // namespace tandem::cuda
