// The CUDA emulator's cuda_runtime.h: the runtime, what kernels call, and the C++ overloads.
#pragma once

#include <cstring>

#include "cuda_device_functions.h"
#include "cuda_runtime_api.h"

template <class T>
cudaError_t cudaMalloc(T** to, size_t size) {
  return cudaMalloc(reinterpret_cast<void**>(to), size);
}
template <class T>
cudaError_t cudaMallocAsync(T** to, size_t size, cudaStream_t stream) {
  return cudaMallocAsync(reinterpret_cast<void**>(to), size, stream);
}
template <class T>
cudaError_t cudaMallocHost(T** to, size_t size) {
  return cudaMallocHost(reinterpret_cast<void**>(to), size);
}
template <class T>
cudaError_t cudaHostAlloc(T** to, size_t size, unsigned flags) {
  return cudaHostAlloc(reinterpret_cast<void**>(to), size, flags);
}
template <class R, class... Args>
cudaError_t cudaFuncSetAttribute(R (*function)(Args...), cudaFuncAttribute attribute, int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(function), attribute, value);
}
template <class R, class... Args>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, R (*function)(Args...)) {
  return cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(function));
}
template <class R, class... Args>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, R (*function)(Args...),
                                                          int block_size, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      blocks, reinterpret_cast<const void*>(function), block_size, shared);
}
template <class T>
cudaError_t cudaMemcpyToSymbol(T& symbol, const void* from, size_t size, size_t offset = 0,
                               cudaMemcpyKind = cudaMemcpyHostToDevice) {
  if (offset + size > sizeof symbol) return cudaErrorInvalidValue;
  std::memcpy(reinterpret_cast<char*>(&symbol) + offset, from, size);
  return cudaSuccess;
}
