// The outcome of a failed CUDA call:
// - A call that cannot be recorded gives the recording up.
// - A failed device ends the step, and with it the group of ranks.
// - Anything else is a broken invariant and stops the process.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace tandem::cuda {

// Thrown while a step is recorded: CudaBackend::record() returns false, and the step runs as it is.
struct RecordingRefused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `what` failed with `error`, which is not cudaSuccess. Throws RecordingRefused, or
// std::runtime_error if the device has failed; else stops the process.
[[noreturn]] void cuda_failed(const char* file, int line, const std::string& what,
                              cudaError_t error);

// The same for failures that are always the device's, as when a recording is launched.
[[noreturn]] void device_failed(const std::string& what, cudaError_t error);

// Why this process cannot use its devices any more, or "". After a kernel has failed, CUDA's errors
// stay until the process ends.
std::string lost_device();

}  // namespace tandem::cuda
