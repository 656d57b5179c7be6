// Clusters of the emulator: blocks that meet, and what it does not let pass.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/hardware/cluster.cuh"
#include "kernels/cuda/launch.cuh"
#include "tests/support/ranks/device_array.h"

namespace tandem::cuda {
namespace {

constexpr unsigned kClusterThreads = 40;

// What threads do wrong; or nothing.
enum class ClusterFault { kNone, kReadsBeforeTheBarrier, kEndsBeforeOthersHaveRead, kNoSuchBlock };

// Each thread tells the sum of what the threads of its number say in all blocks of the cluster.
__global__ void sum_of_cluster(float* out, unsigned cluster, ClusterFault fault) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  auto* own = reinterpret_cast<float4*>(shared) + threadIdx.x;
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  const auto of = static_cast<float>(block * kClusterThreads + threadIdx.x);
  *own = float4{of, 2 * of, 0, 1};
  if (fault != ClusterFault::kReadsBeforeTheBarrier) cluster_barrier();
  float sum = 0;
  for (unsigned rank = 0; rank < cluster; ++rank) {
    const float4 there =
        load_from_block(own, rank + (fault == ClusterFault::kNoSuchBlock ? cluster : 0));
    sum += there.x + there.y + there.w;
  }
  if (fault != ClusterFault::kEndsBeforeOthersHaveRead) cluster_barrier();
  out[block * kClusterThreads + threadIdx.x] = sum;
}

constexpr size_t kShared = kClusterThreads * sizeof(float4);

TEST(CudaClusters, BlocksReadEachOther) {
  for (const unsigned cluster : {2u, 4u, 8u}) {
    const dim3 grid(2 * cluster, 3);
    DeviceArray<float> out(grid.x * grid.y * kClusterThreads);
    TANDEM_LAUNCH_CLUSTERS(sum_of_cluster, grid, kClusterThreads, cluster, kShared, nullptr,
                           out.get(), cluster, ClusterFault::kNone);
    const std::vector<float> values = out.values();
    for (unsigned i = 0; i < values.size(); ++i) {
      const unsigned first = i / kClusterThreads / cluster * cluster;
      float want = 0;
      for (unsigned rank = 0; rank < cluster; ++rank)
        want +=
            3.0f * static_cast<float>((first + rank) * kClusterThreads + i % kClusterThreads) + 1;
      ASSERT_EQ(values[i], want) << cluster << ", " << i;
    }
  }
}

void run_cluster(ClusterFault fault) {
  DeviceArray<float> out(2 * kClusterThreads);
  TANDEM_LAUNCH_CLUSTERS(sum_of_cluster, 2, kClusterThreads, 2, kShared, nullptr, out.get(), 2,
                         fault);
  out.values();
}

TEST(CudaClustersDeathTest, FaultsEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(run_cluster(ClusterFault::kReadsBeforeTheBarrier),
               "no barrier of the cluster has passed");
  EXPECT_DEATH(run_cluster(ClusterFault::kEndsBeforeOthersHaveRead),
               "a block ends whose shared memory|has ended");
  EXPECT_DEATH(run_cluster(ClusterFault::kNoSuchBlock), "there is no such block in the cluster");
}

TEST(CudaClusters, WrongSizesAreNotLaunched) {
  DeviceArray<float> out(16 * kClusterThreads);
  for (const unsigned cluster : {0u, 3u, 16u}) {
    TANDEM_LAUNCH_CLUSTERS(sum_of_cluster, 16, kClusterThreads, cluster, kShared, nullptr,
                           out.get(), cluster, ClusterFault::kNone);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration) << cluster;
  }
}

}  // namespace
}  // namespace tandem::cuda
