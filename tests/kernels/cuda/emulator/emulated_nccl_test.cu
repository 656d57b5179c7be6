// The emulated NCCL: ranks as threads.
#include <cuda_bf16.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "tests/support/ranks/device_array.h"

namespace tandem::cuda {
namespace {

using Rank = std::function<void(int rank, ncclComm_t comm, cudaStream_t stream)>;

// Runs `body` for each rank, with a communicator that it must destroy or abort.
void with_ranks(int ranks, const Rank& body) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ncclComm_t comm;
      ncclResult_t state = ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
      while (state == ncclInProgress) {
        std::this_thread::yield();
        ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
      }
      ASSERT_EQ(state, ncclSuccess);
      cudaStream_t stream;
      cudaStreamCreate(&stream);
      body(rank, comm, stream);
      cudaStreamDestroy(stream);
    });
  for (auto& thread : threads) thread.join();
}

__global__ void scale(float* data, float by) {
  wait_for_earlier_kernels();
  data[threadIdx.x] *= by;
}

TEST(EmulatedNccl, Collectives) {
  for (int ranks : {1, 2, 3, 4})
    with_ranks(ranks, [&](int rank, ncclComm_t comm, cudaStream_t stream) {
      int count = 0, own = -1;
      ncclCommCount(comm, &count);
      ncclCommUserRank(comm, &own);
      EXPECT_EQ(count, ranks);
      EXPECT_EQ(own, rank);
      DeviceArray<float> data({1.0f, static_cast<float>(rank)}), all(2 * ranks);
      TANDEM_LAUNCH(scale, 1, 2, 0, stream, data.get(), 2.0f);
      EXPECT_EQ(ncclAllReduce(data.get(), data.get(), 2, ncclFloat, ncclSum, comm, stream),
                ncclSuccess);
      const float sum = static_cast<float>(ranks * (ranks - 1));
      EXPECT_EQ(data.values(), (std::vector<float>{2.0f * ranks, sum}));
      DeviceArray<__nv_bfloat16> narrow({__nv_bfloat16(0.5f + rank)});
      EXPECT_EQ(ncclAllReduce(narrow.get(), narrow.get(), 1, ncclBfloat16, ncclSum, comm, stream),
                ncclSuccess);
      EXPECT_EQ(float(narrow.values()[0]), 0.5f * ranks + sum / 2);
      DeviceArray<float> mine({rank + 0.25f, rank + 0.5f});
      EXPECT_EQ(ncclAllGather(mine.get(), all.get(), 2, ncclFloat, comm, stream), ncclSuccess);
      const auto gathered = all.values();
      for (int r = 0; r < ranks; ++r) EXPECT_EQ(gathered[2 * r + 1], r + 0.5f);
      EXPECT_EQ(ncclBroadcast(mine.get(), mine.get(), 2, ncclFloat, ranks - 1, comm, stream),
                ncclSuccess);
      EXPECT_EQ(mine.values()[0], ranks - 0.75f);
      ncclCommDestroy(comm);
    });
}

TEST(EmulatedNccl, ARingOfMessages) {
  with_ranks(3, [&](int rank, ncclComm_t comm, cudaStream_t stream) {
    DeviceArray<int> out({rank}), in(1);
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclSend(out.get(), 1, ncclInt, (rank + 1) % 3, comm, stream), ncclSuccess);
    EXPECT_EQ(ncclRecv(in.get(), 1, ncclInt, (rank + 2) % 3, comm, stream), ncclSuccess);
    EXPECT_EQ(in.values()[0], 0);  // not yet
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(in.values()[0], (rank + 2) % 3);
    ncclCommDestroy(comm);
  });
}

TEST(EmulatedNccl, CollectivesInGraphs) {
  with_ranks(2, [&](int rank, ncclComm_t comm, cudaStream_t stream) {
    DeviceArray<float> data({rank + 1.0f});
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_EQ(ncclAllReduce(data.get(), data.get(), 1, ncclFloat, ncclSum, comm, stream),
              ncclSuccess);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    ASSERT_EQ(cudaGraphInstantiate(&exec, graph), cudaSuccess);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    EXPECT_EQ(data.values()[0], 12);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    ncclCommDestroy(comm);
  });
}

TEST(EmulatedNcclDeathTest, GraphsHoldTheirCommunicator) {
  for (const auto end : {ncclCommDestroy, ncclCommAbort})
    with_ranks(1, [&](int, ncclComm_t comm, cudaStream_t stream) {
      DeviceArray<float> data({1.0f});
      ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
      ncclAllReduce(data.get(), data.get(), 1, ncclFloat, ncclSum, comm, stream);
      cudaGraph_t graph;
      ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
      EXPECT_DEATH(end(comm), "waits for ever");
      cudaGraphDestroy(graph);
      EXPECT_EQ(end(comm), ncclSuccess);
    });
}

TEST(EmulatedNccl, AbortWakesThoseWhoWait) {
  std::atomic<int> waiting{0};
  with_ranks(3, [&](int rank, ncclComm_t comm, cudaStream_t stream) {
    DeviceArray<float> data({1});
    if (rank == 2) {
      while (waiting < 2) std::this_thread::yield();
      EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
      return;
    }
    ++waiting;
    ncclAllReduce(data.get(), data.get(), 1, ncclFloat, ncclSum, comm, stream);
    ncclResult_t state = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclRemoteError);
    EXPECT_EQ(ncclAllReduce(data.get(), data.get(), 1, ncclFloat, ncclSum, comm, stream),
              ncclRemoteError);
    EXPECT_EQ(data.values()[0], 1);
    ncclCommAbort(comm);
  });
}

TEST(EmulatedNcclDeathTest, CallsThatDoNotFitTogether) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(with_ranks(2,
                          [&](int rank, ncclComm_t comm, cudaStream_t stream) {
                            DeviceArray<float> data(4);
                            ncclAllReduce(data.get(), data.get(), rank + 1, ncclFloat, ncclSum,
                                          comm, stream);
                          }),
               "rank 0 calls AllReduce\\(count 1.*rank 1 AllReduce\\(count 2");
}

}  // namespace
}  // namespace tandem::cuda
