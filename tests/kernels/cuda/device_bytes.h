// Values in the types of activations, and bytes on a CUDA device.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/cuda/launch.cuh"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::testing {

// To nearest, ties to even; |v| below 65520.
inline uint16_t float_to_f16(float v) {
  const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  if (std::isnan(v)) return 0x7e00;
  if (std::isinf(v)) return sign | 0x7c00;
  int exponent = -14;
  if (v != 0) exponent = std::max(exponent, std::ilogb(v));
  const auto units = static_cast<uint16_t>(std::nearbyint(std::ldexp(std::abs(v), 10 - exponent)));
  // 1024 units carry into the exponent by themselves.
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + units);
}

inline std::vector<std::byte> to_type(std::span<const float> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = dtype == DType::kF16 ? float_to_f16(values[i]) : float_to_bf16(values[i]);
    if (dtype == DType::kF32) {
      std::memcpy(bytes.data() + i * 4, &values[i], 4);
    } else {
      std::memcpy(bytes.data() + i * 2, &half, 2);
    }
  }
  return bytes;
}

inline std::vector<float> from_type(std::span<const std::byte> bytes, DType dtype) {
  std::vector<float> values(bytes.size() / size_of(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kF32) {
      std::memcpy(&values[i], bytes.data() + i * 4, 4);
    } else {
      uint16_t half;
      std::memcpy(&half, bytes.data() + i * 2, 2);
      values[i] = dtype == DType::kF16 ? f16_to_float(half) : bf16_to_float(half);
    }
  }
  return values;
}

// A copy of host memory on the device.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::span<const std::byte> from) : size_(from.size()) {
    TANDEM_CUDA_CHECK(cudaMalloc(&data_, std::max<size_t>(1, size_)));
    TANDEM_CUDA_CHECK(cudaMemcpy(data_, from.data(), size_, cudaMemcpyHostToDevice));
  }
  template <class T>
  explicit DeviceBytes(const std::vector<T>& from) : DeviceBytes(std::as_bytes(std::span(from))) {}
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { cudaFree(data_); }

  void* get() const { return data_; }
  template <class T = std::byte>
  std::vector<T> to_host() const {
    std::vector<T> to(size_ / sizeof(T));
    TANDEM_CUDA_CHECK(cudaMemcpy(to.data(), data_, size_, cudaMemcpyDeviceToHost));
    return to;
  }

 private:
  void* data_ = nullptr;
  size_t size_;
};

}  // namespace tandem::testing
