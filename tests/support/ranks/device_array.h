// An array on the device, made from one on the host.
#pragma once

#include <cuda_runtime.h>

#include <initializer_list>
#include <vector>

#include "kernels/cuda/launch.cuh"

namespace tandem::cuda {

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
    TANDEM_CUDA_CHECK(cudaMalloc(&data_, size_ * sizeof(T)));
    TANDEM_CUDA_CHECK(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  explicit DeviceArray(std::initializer_list<T> values) : DeviceArray(std::vector<T>(values)) {}
  explicit DeviceArray(size_t size) : DeviceArray(std::vector<T>(size)) {}
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(data_); }
  T* get() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> result(size_);
    TANDEM_CUDA_CHECK(cudaMemcpy(result.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return result;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

}  // namespace tandem::cuda
