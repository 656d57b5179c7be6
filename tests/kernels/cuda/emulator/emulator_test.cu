// The CUDA emulator itself: threads, barriers, warps, shared memory; and what it must not hide.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "tests/support/ranks/device_array.h"

namespace tandem::cuda {
namespace {

__global__ void indices(unsigned* out) {
  wait_for_earlier_kernels();
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] += block * 1000 + thread;
}

TEST(CudaEmulator, EveryThreadOfEveryBlockRunsOnce) {
  const dim3 grid(3, 4, 5), block(7, 3, 2);
  DeviceArray<unsigned> out(60 * 42);
  TANDEM_LAUNCH(indices, grid, block, 0, nullptr, out.get());
  const auto values = out.values();
  for (unsigned i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], i / 42 * 1000 + i % 42);
}

// One sum per block, by warps and then by shared memory.
__global__ void block_sum(const float* in, float* out, int n) {
  wait_for_earlier_kernels();
  __shared__ float of_warp[32];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += in[blockIdx.x * n + i];
  for (int bits = 16; bits > 0; bits /= 2) sum += __shfl_xor_sync(kFullWarp, sum, bits);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? of_warp[threadIdx.x] : 0;
    for (int bits = 16; bits > 0; bits /= 2) sum += __shfl_down_sync(kFullWarp, sum, bits);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
  }
}

TEST(CudaEmulator, SumsOfABlock) {
  for (unsigned threads : {32u, 96u, 256u, 1024u}) {
    const int n = 777, blocks = 5;
    std::vector<float> in(n * blocks);
    std::iota(in.begin(), in.end(), 1.0f);
    DeviceArray<float> device(in), out(blocks);
    TANDEM_LAUNCH(block_sum, blocks, threads, 0, nullptr, device.get(), out.get(), n);
    for (int b = 0; b < blocks; ++b)
      EXPECT_FLOAT_EQ(out.values()[b], n * (n + 1) / 2.0f + static_cast<float>(b) * n * n);
  }
}

template <bool kBarrier>
__global__ void reverse(int* data) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  int* tile = reinterpret_cast<int*>(shared);
  tile[threadIdx.x] = data[threadIdx.x];
  if (kBarrier) __syncthreads();
  data[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

TEST(CudaEmulator, AMissingBarrierShows) {
  std::vector<int> in(256), expected(256);
  std::iota(in.begin(), in.end(), 0);
  for (int i = 0; i < 256; ++i) expected[i] = 255 - i;
  DeviceArray<int> good(in), bad(in);
  TANDEM_LAUNCH((reverse<true>), 1, 256, 1024, nullptr, good.get());
  TANDEM_LAUNCH((reverse<false>), 1, 256, 1024, nullptr, bad.get());
  EXPECT_EQ(good.values(), expected);
  EXPECT_NE(bad.values(), expected);
}

template <bool kBarrier>
__global__ void neighbours(int* out) {
  wait_for_earlier_kernels();
  __shared__ int tile[32];
  for (int round = 0; round < 4; ++round) {
    tile[threadIdx.x] = round * 100 + threadIdx.x;
    __syncwarp();
    out[round * 32 + threadIdx.x] = tile[(threadIdx.x + 1) % 32];
    if (kBarrier) __syncwarp();
  }
}

TEST(CudaEmulator, AMissingWarpBarrierShows) {
  DeviceArray<int> good(128), bad(128);
  TANDEM_LAUNCH((neighbours<true>), 1, 32, 0, nullptr, good.get());
  TANDEM_LAUNCH((neighbours<false>), 1, 32, 0, nullptr, bad.get());
  const auto values = good.values();
  for (int i = 0; i < 128; ++i) EXPECT_EQ(values[i], i / 32 * 100 + (i + 1) % 32);
  EXPECT_NE(bad.values(), values);
}

template <class T>
__device__ T left_over() {
  __shared__ T variable[3];
  const T found = variable[1];
  variable[1] = 7;
  return found;
}

__global__ void unset(unsigned* out) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(dynamic);
  __shared__ __align__(16) unsigned plain, more[100];
  out[blockIdx.x * 5] = plain;
  out[blockIdx.x * 5 + 1] = more[99];
  out[blockIdx.x * 5 + 2] = left_over<unsigned>();
  out[blockIdx.x * 5 + 3] = std::isnan(left_over<float>());
  out[blockIdx.x * 5 + 4] = dynamic[11];
  plain = more[99] = dynamic[11] = 5;
}

TEST(CudaEmulator, SharedMemoryIsPoisonedForEveryBlock) {
  // (More blocks than are looked at one by one.)
  constexpr int kBlocks = 200;
  DeviceArray<unsigned> out(5 * kBlocks);
  TANDEM_LAUNCH(unset, kBlocks, 1, 12, nullptr, out.get());
  const auto values = out.values();
  for (int b = 0; b < kBlocks; ++b) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(values[b * 5 + i], ~0u) << i;
    EXPECT_EQ(values[b * 5 + 3], 1u);
    EXPECT_EQ(values[b * 5 + 4], 0xffu);
  }
}

__global__ void warp_functions(unsigned* out) {
  wait_for_earlier_kernels();
  const unsigned lane = threadIdx.x;
  if (lane >= 20) return;  // who has ended is not waited for
  unsigned* row = out + lane * 12;
  const unsigned mask = (1u << 20) - 1;
  row[0] = __ballot_sync(mask, lane % 3 == 0);
  row[1] = __any_sync(mask, lane == 19);
  row[2] = __all_sync(mask, lane < 20);
  row[3] = __shfl_up_sync(mask, lane, 2);
  row[4] = __shfl_sync(mask, lane, 5, 8);
  row[5] = static_cast<unsigned>(__shfl_sync(mask, (1ull << 40) + lane, 3) >> 38);
  row[6] = __all_sync(mask, lane != 4);
  row[7] = __shfl_sync(mask, lane, 25);
  if (lane % 2 == 0)  // two groups, each on its own
    row[8] = __ballot_sync(0x55555u, lane > 9);
  else
    row[8] = __ballot_sync(0xaaaaau, lane < 10);
  row[9] = __syncthreads_count(lane < 3);
  row[10] = __syncthreads_or(lane == 7);
  row[11] = __syncthreads_and(lane != 7);
}

TEST(CudaEmulator, WarpFunctions) {
  DeviceArray<unsigned> out(20 * 12);
  TANDEM_LAUNCH(warp_functions, 1, 32, 0, nullptr, out.get());
  const auto v = out.values();
  for (unsigned lane = 0; lane < 20; ++lane) {
    const unsigned up = lane < 2 ? lane : lane - 2, from = lane / 8 * 8 + 5;
    const std::vector<unsigned> expected = {
        0x49249u, 1, 1, up, from < 20 ? from : ~0u, 4, 0, ~0u, lane % 2 ? 0x2aau : 0x55400u,
        3,        1, 0};
    EXPECT_EQ(std::vector(v.begin() + lane * 12, v.begin() + lane * 12 + 12), expected) << lane;
  }
}

__global__ void last_block_adds(const int* in, int* partial, unsigned* ticket, int* out) {
  wait_for_earlier_kernels();
  __shared__ bool last;
  atomicAdd(&partial[blockIdx.x], in[blockIdx.x * blockDim.x + threadIdx.x]);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(ticket, 1u) == gridDim.x - 1;
  __syncthreads();
  if (last) atomicAdd(out, threadIdx.x < gridDim.x ? partial[threadIdx.x] : 0);
}

TEST(CudaEmulator, Atomics) {
  std::vector<int> in(20 * 64);
  std::iota(in.begin(), in.end(), 0);
  DeviceArray<int> device(in), partial(20), out(1);
  DeviceArray<unsigned> ticket(1);
  TANDEM_LAUNCH(last_block_adds, 20, 64, 0, nullptr, device.get(), partial.get(), ticket.get(),
                out.get());
  EXPECT_EQ(out.values()[0], 1280 * 1279 / 2);
  EXPECT_EQ(ticket.values()[0], 20u);
}

__global__ void stuck(int waits) {
  wait_for_earlier_kernels();
  if (static_cast<int>(threadIdx.x) < waits)
    __syncthreads();
  else
    __syncwarp();
}

TEST(CudaEmulatorDeathTest, ADeadlockNamesItsThreads) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TANDEM_LAUNCH(stuck, 1, 64, 0, nullptr, 32);  // the second warp ends
  EXPECT_DEATH(TANDEM_LAUNCH(stuck, 3, 64, 0, nullptr, 7),
               "deadlock: 32 threads wait(.|\n)*__syncthreads(.|\n)*__syncwarp with mask "
               "ffffffff(.|\n)*grid \\(3, 1, 1\\), block \\(64, 1, 1\\)(.|\n)*in block");
}

__global__ void mixes() {
  wait_for_earlier_kernels();
  if (threadIdx.x == 0)
    __syncwarp();
  else
    __ballot_sync(kFullWarp, 1);
}

TEST(CudaEmulatorDeathTest, LanesThatMeetInDifferentCalls) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(TANDEM_LAUNCH(mixes, 1, 32, 0, nullptr), "lanes of a warp meet in");
  EXPECT_DEATH(__syncthreads(), "outside of a kernel");
}

__global__ void hurries(bool meets) {
  if (meets) __syncwarp();
  if (threadIdx.x > 0) wait_for_earlier_kernels();
}

TEST(CudaEmulatorDeathTest, KernelsWaitForEarlierOnes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(TANDEM_LAUNCH(hurries, 1, 32, 0, nullptr, false), "earlier kernels when it ends");
  EXPECT_DEATH(TANDEM_LAUNCH(hurries, 1, 32, 0, nullptr, true), "earlier kernels when it meets");
}

TEST(CudaEmulator, WrongConfigurationsAreErrors) {
  TANDEM_LAUNCH(stuck, 1, 1025, 0, nullptr, 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  TANDEM_LAUNCH(stuck, 0, 32, 0, nullptr, 0);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  TANDEM_LAUNCH(stuck, 1, 32, 228 << 10, nullptr, 0);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

}  // namespace
}  // namespace tandem::cuda
