// What the files of the emulated runtime share.
#pragma once

#include <functional>
#include <vector>

#include "cuda_runtime_api.h"

using CapturedWork = std::vector<std::function<void()>>;  // in the order of capture
struct CUgraph_st {
  CapturedWork work;
};

namespace cuda_emulator {

// Keeps the error for cudaGetLastError and gives it back.
cudaError_t failed(cudaError_t error);

// A call that may not be made while a stream captures (cudaMalloc, say). Where this thread may not:
// the capture is lost, as on hardware, and the error is kept.
cudaError_t forbid_while_capturing();

// As submit(), but may run as late as something needs it (streams.cc).
cudaError_t submit_late(cudaStream_t stream, std::function<void()> work);
// For calls that wait for the whole device.
void catch_up_all();

// Stops if another "process" has the memory open (peers.cc).
void expect_closed(const void* memory);

// What recordings take of the device's memory.
constexpr size_t kBytesOfNode = 4096;
size_t recordings_bytes();

// Whether this is the event that TANDEM_EMULATOR_FAULT names (faults.cc).
bool fault_happens(const char* kind);
// From now on, until the variable changes, the device answers with this error.
cudaError_t lose_device(cudaError_t error);
cudaError_t device_error();

// Fills memory with 0xFF and gives it back; cudaErrorInvalidValue if it is not device memory.
cudaError_t release(void* memory);

}  // namespace cuda_emulator
