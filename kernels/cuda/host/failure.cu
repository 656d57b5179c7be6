#include <mutex>

#include "base/check.h"
#include "kernels/cuda/host/failure.h"

namespace tandem::cuda {
namespace {

std::mutex mutex;   // of `cause`
std::string cause;  // of the first failure that stays

bool of_recording(cudaError_t error) {
  return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread;
}

// An error that stays is the answer of every call.
bool stays() {
  cudaGetLastError();
  size_t free = 0, total = 0;
  const bool failed = cudaMemGetInfo(&free, &total) != cudaSuccess;
  cudaGetLastError();
  return failed;
}

}  // namespace

void device_failed(const std::string& what, cudaError_t error) {
  const std::string message = "the GPU failed: " + what + ": " + cudaGetErrorString(error);
  if (stays()) {
    const std::lock_guard lock(mutex);
    if (cause.empty()) cause = message;
  }
  throw std::runtime_error(message);
}

void cuda_failed(const char* file, int line, const std::string& what, cudaError_t error) {
  if (of_recording(error)) {
    cudaGetLastError();
    throw RecordingRefused(what + ": " + cudaGetErrorString(error));
  }
  if (stays()) device_failed(what, error);
  ::tandem::detail::check_failed(file, line, what + ": " + cudaGetErrorString(error));
}

std::string lost_device() {
  const std::lock_guard lock(mutex);
  if (!cause.empty() && !stays()) cause.clear();
  return cause;
}

}  // namespace tandem::cuda
