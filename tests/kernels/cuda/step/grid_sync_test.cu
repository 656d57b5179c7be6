// The barrier of a step's blocks: from one launch to the next, and waits that are given up.
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <vector>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/step/grid_sync.cuh"
#include "kernels/cuda/step/step_memory.h"
#include "tests/kernels/cuda/device_matrix.h"
#include "tests/support/ranks/device_array.h"

namespace tandem::cuda::grid_sync_test {
namespace {

using step::BarrierPlaces;
using step::GridSync;

constexpr unsigned kThreads = 64, kBlocks = 3;
constexpr int kRounds = 4;

// Each block says how many rounds it saw all others enter. Block `absent` never meets them.
__global__ void meet_others(const __grid_constant__ BarrierPlaces places, int32_t* entered,
                            int32_t* seen, int absent) {
  wait_for_earlier_kernels();
  GridSync sync(places);
  const int block = static_cast<int>(blockIdx.x);
  if (block == absent) return;
  int32_t rounds = 0;
  for (int round = 1; round <= kRounds; ++round) {
    if (threadIdx.x == kThreads - 1) entered[block] = round;
    sync.meet();
    int32_t least = round;
    for (int b = 0; b < static_cast<int>(gridDim.x); ++b) least = min(least, __ldcg(entered + b));
    rounds += least == round ? 1 : 0;
    sync.meet();
  }
  sync.end();
  if (threadIdx.x == 0) seen[block] = rounds;
}

class Barrier {
 public:
  explicit Barrier(uint32_t first, uint64_t timeout) : words_({first, first, 0}) {
    TANDEM_CUDA_CHECK(cudaMallocHost(&host_, 2 * sizeof(uint32_t)));
    host_[0] = host_[1] = 0;
    places_ = {words_.get(), host_, host_ + 1, timeout};
  }
  ~Barrier() { cudaFreeHost(host_); }

  void abort() { host_[0] = 1; }
  bool failed() const { return host_[1] != 0; }
  // Rounds in which each block saw all others.
  std::vector<int32_t> run(int absent = -1) {
    DeviceArray<int32_t> entered(kBlocks), seen(kBlocks);
    TANDEM_LAUNCH_COOPERATIVE(meet_others, kBlocks, kThreads, 0, nullptr, places_, entered.get(),
                              seen.get(), absent);
    TANDEM_CUDA_CHECK(cudaDeviceSynchronize());
    return seen.values();
  }

 private:
  DeviceArray<uint32_t> words_;
  uint32_t* host_ = nullptr;
  BarrierPlaces places_;
};

constexpr uint64_t kLong = uint64_t{60} * 1'000'000'000, kShort = 200'000'000;
const std::vector<int32_t> kAll(kBlocks, kRounds);

// The counter begins anew behind 2^32 - 1.
TEST(CudaGridSync, CountsFromLaunchToLaunch) {
  for (const uint32_t first : {0u, ~0u - 30}) {
    Barrier barrier(first, kLong);
    for (int launch = 0; launch < 3; ++launch) EXPECT_EQ(barrier.run(), kAll) << first;
    EXPECT_FALSE(barrier.failed());
  }
}

TEST(CudaGridSync, TheHostEndsWaits) {
  Barrier barrier(0, kLong);
  barrier.abort();
  // (Blocks that come have no need of the host's word.)
  EXPECT_EQ(barrier.run(), kAll);
  EXPECT_FALSE(barrier.failed());
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(barrier.run(1), kAll);
  EXPECT_TRUE(barrier.failed());
  // Nobody waits in a later launch.
  barrier.run(0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(CudaGridSync, TheClockEndsWaits) {
  Barrier barrier(7, kShort);
  EXPECT_EQ(barrier.run(), kAll);
  EXPECT_FALSE(barrier.failed());
  EXPECT_NE(barrier.run(2), kAll);
  EXPECT_TRUE(barrier.failed());
}

TEST(CudaGridSync, AWaitThatWasGivenUpFailsTheStep) {
  setenv("TANDEM_STEP_KERNEL_ROWS", "8", 1);
  Context ctx = testing::cuda_context(DType::kBF16);
  unsetenv("TANDEM_STEP_KERNEL_ROWS");
  ctx.backend().synchronize();
  *static_cast<CudaBackend&>(ctx.backend()).step_memory().barrier().failed = 1;
  EXPECT_THROW(ctx.backend().synchronize(), std::runtime_error);
}

}  // namespace
}  // namespace tandem::cuda::grid_sync_test
