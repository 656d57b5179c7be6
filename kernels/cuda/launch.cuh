// How kernels of this folder are written, so that they run on a GPU and, thread by thread, in the
// emulator of tests/support/cuda_emulator (TANDEM_CUDA_EMULATED, plain C++).
#pragma once

#include <cuda_runtime.h>

#include <string>
#include <utility>

#include "base/check.h"

// TANDEM_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...); a kernel template in
// parentheses: TANDEM_LAUNCH((norm<float, 4>), ...). What a kernel does first is
// wait_for_earlier_kernels().
// TANDEM_DYNAMIC_SHARED(name): unsigned char* name, the dynamic shared memory, 128-byte aligned.
#if defined(TANDEM_CUDA_EMULATED)
#include <cuda_emulator.h>
#define TANDEM_LAUNCH(kernel, grid, block, shared, stream, ...)                                \
  ::cuda_emulator::launch((grid), (block), (shared), (stream), [=](const auto&... arguments) { \
    kernel(arguments...);                                                                      \
  } __VA_OPT__(, ) __VA_ARGS__)
#define TANDEM_DYNAMIC_SHARED(name) unsigned char* name = ::cuda_emulator::dynamic_shared()
#else
#define TANDEM_LAUNCH(kernel, grid, block, shared, stream, ...)    \
  ::tandem::cuda::launch_kernel(kernel, (grid), (block), (shared), \
                                (stream)__VA_OPT__(, ) __VA_ARGS__)
#define TANDEM_DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#endif

namespace tandem::cuda {

constexpr unsigned kFullWarp = 0xffffffffu;
constexpr int kWarpSize = 32;

// Whether kernels are launched before those in front of them have ended (dependent launches): from
// compute capability 9.0 on, where TANDEM_DEPENDENT_LAUNCH=1. Set when a device is opened.
bool overlaps_launches();
void overlap_launches(int capability);

// Every thread of every kernel begins with this: what earlier kernels of the stream wrote is there
// when it returns, and later kernels may be launched then, who wait here in turn. (A grid that
// ended without waiting could end before an earlier one, on whom those behind it rely.)
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if defined(TANDEM_CUDA_EMULATED)
  ::cuda_emulator::wait_for_earlier_kernels();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Asks for 128 bytes to be in the L2 cache soon: allowed before the wait, for what is constant.
__device__ __forceinline__ void prefetch(const void* line) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L2 [%0];" ::"l"(line));
#endif
}

#if !defined(TANDEM_CUDA_EMULATED)
// Failures are left in cudaGetLastError.
template <class... Parameters, class... Arguments>
void launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared,
                   cudaStream_t stream, Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = overlaps_launches() ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}
#endif

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
