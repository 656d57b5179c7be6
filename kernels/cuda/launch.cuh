// How kernels of this folder are written, so that they run on a GPU and, thread by thread, in the
// emulator of tests/support/cuda_emulator (TANDEM_CUDA_EMULATED, plain C++).
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "kernels/core/check.h"

// TANDEM_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...); a kernel template in
// parentheses: TANDEM_LAUNCH((norm<float, 4>), ...).
// TANDEM_DYNAMIC_SHARED(name): unsigned char* name, the dynamic shared memory, 128-byte aligned.
#if defined(TANDEM_CUDA_EMULATED)
#include <cuda_emulator.h>
#define TANDEM_LAUNCH(kernel, grid, block, shared, stream, ...)                                \
  ::cuda_emulator::launch((grid), (block), (shared), (stream), [=](const auto&... arguments) { \
    kernel(arguments...);                                                                      \
  } __VA_OPT__(, ) __VA_ARGS__)
#define TANDEM_DYNAMIC_SHARED(name) unsigned char* name = ::cuda_emulator::dynamic_shared()
#else
#define TANDEM_LAUNCH(kernel, grid, block, shared, stream, ...) \
  kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__)
#define TANDEM_DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#endif

namespace tandem::cuda {

constexpr unsigned kFullWarp = 0xffffffffu;
constexpr int kWarpSize = 32;

// Stops with the call's text: a failed CUDA call is a broken invariant, except where the caller
// handles it (memory).
#define TANDEM_CUDA_CHECK(call)                                                              \
  do {                                                                                       \
    const cudaError_t tandem_status_ = (call);                                               \
    if (tandem_status_ != cudaSuccess) [[unlikely]]                                          \
      ::tandem::detail::check_failed(                                                        \
          __FILE__, __LINE__, #call ": " + std::string(cudaGetErrorString(tandem_status_))); \
  } while (false)

}  // namespace tandem::cuda
