// What a failed call of CUDA's ends in: a call that cannot be recorded gives the recording up, a
// device that has failed ends the step, and with it the group of ranks; anything else is a broken
// invariant and stops the process.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace tandem::cuda {

// Thrown while a step is recorded: CudaBackend::record() says false, and the step runs as it is.
struct RecordingRefused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `what` failed with `error`, which is not cudaSuccess. Throws RecordingRefused, or
// std::runtime_error where the device has failed, or does not return.
[[noreturn]] void cuda_failed(const char* file, int line, const std::string& what,
                              cudaError_t error);

// The same where a failure is the device's, whatever the error: of launching a recording.
[[noreturn]] void device_failed(const std::string& what, cudaError_t error);

// Why this process can do nothing on its devices any more (CUDA's errors stay after a kernel has
// failed, until the process ends); "" if it can.
std::string lost_device();

}  // namespace tandem::cuda
