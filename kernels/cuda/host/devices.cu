#include <cuda_runtime.h>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/host/devices.h"
#include "kernels/cuda/host/failure.h"

namespace tandem::cuda {

namespace {

constexpr int kLeastCapability = 75;

}  // namespace

int device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

std::string device_problem(int index) {
  if (const std::string lost = lost_device(); !lost.empty())
    return lost + "; only a new process can compute there again";
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();
    if (error == cudaErrorInsufficientDriver)
      return "there is no NVIDIA driver, or it is too old for CUDA " +
             std::to_string(CUDART_VERSION / 1000);
    return std::string("CUDA says: ") + cudaGetErrorString(error);
  }
  if (index >= count)
    return "there is no cuda:" + std::to_string(index) + ", but " + std::to_string(count) +
           " devices";
  cudaDeviceProp p{};
  if (cudaGetDeviceProperties(&p, index) != cudaSuccess) {
    cudaGetLastError();
    return "its properties cannot be read";
  }
  if (10 * p.major + p.minor < kLeastCapability)
    return std::string(p.name) + " is of compute capability " + std::to_string(p.major) + "." +
           std::to_string(p.minor) + ", 7.5 is the least";
  return {};
}

std::unique_ptr<DeviceBackend> make_backend(int index) {
  return std::make_unique<CudaBackend>(index);
}

}  // namespace tandem::cuda
