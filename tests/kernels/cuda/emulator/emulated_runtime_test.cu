// The emulated runtime: memory, streams, capture and graphs.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/cuda/hardware/system_scope.cuh"
#include "kernels/cuda/launch.cuh"
#include "tests/support/ranks/device_array.h"

namespace tandem::cuda {
namespace {

__global__ void add(float* data, float value, int n) {
  wait_for_earlier_kernels();
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += value;
}

class EmulatedRuntime : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    ASSERT_EQ(cudaStreamCreate(&other_), cudaSuccess);
    ASSERT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), cudaSuccess);
  }
  void TearDown() override {
    cudaEventDestroy(event_);
    cudaStreamDestroy(other_);
    cudaStreamDestroy(stream_);
    EXPECT_EQ(cuda_emulator::allocated_bytes(), before_);
    cudaGetLastError();
  }
  cudaStreamCaptureStatus status(cudaStream_t stream) {
    cudaStreamCaptureStatus result;
    EXPECT_EQ(cudaStreamIsCapturing(stream, &result), cudaSuccess);
    return result;
  }
  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
  }
  // What was handed to "processes" stays (kernels/cuda/collective/one_shot_all_reduce.h).
  const size_t before_ = cuda_emulator::allocated_bytes();
  cudaStream_t stream_, other_;
  cudaEvent_t event_;
};

TEST_F(EmulatedRuntime, AGraphRunsWhenItIsLaunchedAndAsOften) {
  DeviceArray<float> data({1, 2, 3});
  begin();
  float step = 10;
  TANDEM_LAUNCH(add, 1, 32, 0, stream_, data.get(), step, 3);
  step = 1000;  // the graph has what was given
  EXPECT_EQ(cudaMemsetAsync(data.get(), 0, 4, stream_), cudaSuccess);
  EXPECT_EQ(status(stream_), cudaStreamCaptureStatusActive);
  EXPECT_EQ(status(other_), cudaStreamCaptureStatusNone);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_EQ(data.values(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(data.values(), (std::vector<float>{0, 22, 23}));
  cudaGraphExecDestroy(exec);
}

TEST_F(EmulatedRuntime, ACaptureFollowsEventsToOtherStreams) {
  DeviceArray<float> data({0});
  for (const bool joined : {true, false}) {
    begin();
    EXPECT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(other_, event_), cudaSuccess);
    TANDEM_LAUNCH(add, 1, 1, 0, other_, data.get(), 5.0f, 1);
    EXPECT_EQ(status(other_), cudaStreamCaptureStatusActive);
    if (joined) {
      EXPECT_EQ(cudaEventRecord(event_, other_), cudaSuccess);
      EXPECT_EQ(cudaStreamWaitEvent(stream_, event_), cudaSuccess);
    }
    cudaGraph_t graph;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph),
              joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined);
    EXPECT_EQ(status(other_), cudaStreamCaptureStatusNone);
    EXPECT_EQ(graph != nullptr, joined);
    cudaGraphDestroy(graph);
    EXPECT_EQ(data.values()[0], 0);
  }
}

TEST_F(EmulatedRuntime, WhatMayNotBeCapturedLosesTheCapture) {
  DeviceArray<float> data({0});
  const std::vector<std::function<cudaError_t()>> forbidden = {
      [] {
        void* memory;
        return cudaMalloc(&memory, 16);
      },
      [&] { return cudaStreamSynchronize(stream_); }, [] { return cudaDeviceSynchronize(); },
      [&] { return cudaMemcpy(data.get(), data.get(), 4, cudaMemcpyDeviceToDevice); },
      [&] {
        cudaEventRecord(event_, stream_);
        return cudaEventSynchronize(event_) == cudaErrorCapturedEvent
                   ? cudaErrorStreamCaptureUnsupported
                   : cudaSuccess;
      }};
  for (const auto& call : forbidden) {
    begin();
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(status(stream_), cudaStreamCaptureStatusInvalidated);
    TANDEM_LAUNCH(add, 1, 1, 0, stream_, data.get(), 5.0f, 1);
    EXPECT_NE(cudaGetLastError(), cudaSuccess);
    cudaGraph_t graph;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    TANDEM_LAUNCH(add, 1, 1, 0, stream_, data.get(), 0.0f, 1);
    cudaGetLastError();
  }
  begin(cudaStreamCaptureModeRelaxed);
  void* memory;
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  cudaGraph_t graph;
  EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
}

TEST_F(EmulatedRuntime, MemoryIsCountedPoisonedAndChecked) {
  unsigned* memory;
  ASSERT_EQ(cudaMallocAsync(&memory, 40, stream_), cudaSuccess);
  EXPECT_EQ(memory[9], ~0u);
  size_t free, total;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(total - free, before_ + 40u);
  unsigned host[2] = {1, 2};
  EXPECT_EQ(cudaMemcpyAsync(memory, host, 8, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(memory, host, 8, cudaMemcpyDeviceToDevice, stream_),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host, memory, 8, cudaMemcpyHostToDevice, stream_),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeAsync(memory, stream_), cudaSuccess);
  EXPECT_EQ(cudaFree(host), cudaErrorInvalidValue);
  void* too_much;
  EXPECT_EQ(cudaMalloc(&too_much, total + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST_F(EmulatedRuntime, CopiesFromPinnedMemoryAreLate) {
  DeviceArray<float> data({0, 0});
  float* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 8), cudaSuccess);
  const auto send = [&](float value) {
    *pinned = value;
    EXPECT_EQ(cudaMemcpyAsync(data.get(), pinned, 4, cudaMemcpyHostToDevice, stream_), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  };
  const auto value = [&] { return data.get()[0]; };  // (the device's memory is the process's)
  send(1);
  EXPECT_EQ(value(), 0);
  *pinned = 2;  // too early
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(value(), 2);
  send(3);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  EXPECT_EQ(value(), 3);
  // An event stands for what was before it.
  send(4);
  EXPECT_EQ(cudaMemcpyAsync(data.get() + 1, pinned, 4, cudaMemcpyHostToDevice, stream_),
            cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  EXPECT_EQ(value(), 4);
  EXPECT_EQ(data.get()[1], 0);
  // What follows on the stream, and on one that waits for it, sees the copy; other streams do not.
  send(5);
  TANDEM_LAUNCH(add, 1, 1, 0, stream_, data.get(), 10.0f, 1);
  EXPECT_EQ(value(), 15);
  send(6);
  TANDEM_LAUNCH(add, 1, 1, 0, other_, data.get(), 10.0f, 1);
  EXPECT_EQ(value(), 25);
  EXPECT_EQ(cudaStreamWaitEvent(other_, event_), cudaSuccess);
  EXPECT_EQ(value(), 25);
  TANDEM_LAUNCH(add, 1, 1, 0, other_, data.get(), 10.0f, 1);
  EXPECT_EQ(value(), 16);
  // To the host, too; and a query gets there.
  EXPECT_EQ(cudaMemcpyAsync(pinned, data.get(), 4, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  EXPECT_EQ(*pinned, 6);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaSuccess);
  EXPECT_EQ(*pinned, 16);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

__global__ void tell(int32_t* host, const int32_t* value) {
  wait_for_earlier_kernels();
  cuda::store_to_host(host, *value);
}

// What kernels store to the host's memory is seen by who waits for them, in a recording too.
TEST_F(EmulatedRuntime, StoresToTheHostAreLate) {
  DeviceArray<int32_t> value({3});
  int32_t* host = nullptr;
  ASSERT_EQ(cudaMallocHost(&host, 4), cudaSuccess);
  *host = 1;
  TANDEM_LAUNCH(tell, 1, 1, 0, stream_, host, value.get());
  EXPECT_EQ(*host, 1);
  EXPECT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  EXPECT_EQ(*host, 3);
  ASSERT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  TANDEM_LAUNCH(tell, 1, 1, 0, stream_, host, value.get());
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t recording = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphInstantiate(&recording, graph, 0), cudaSuccess);
  *host = 1;
  EXPECT_EQ(cudaGraphLaunch(recording, stream_), cudaSuccess);
  EXPECT_EQ(*host, 1);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(*host, 3);
  EXPECT_EQ(cudaGraphExecDestroy(recording), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
}

TEST_F(EmulatedRuntime, TheDevice) {
  int count, multiprocessors;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(cudaSetDevice(1), cudaErrorInvalidDevice);
  cudaDeviceProp properties;
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  EXPECT_STREQ(properties.name, "emulated");
  EXPECT_EQ(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
            cudaSuccess);
  EXPECT_EQ(multiprocessors, 132);
  EXPECT_EQ(cudaFuncSetAttribute(add, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10),
            cudaSuccess);
  EXPECT_EQ(cudaFuncSetAttribute(add, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10),
            cudaErrorInvalidValue);
}

}  // namespace
}  // namespace tandem::cuda
