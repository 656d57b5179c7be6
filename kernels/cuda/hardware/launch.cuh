// How nvcc's kernels are launched (kernels/cuda/launch.cuh describes the macros).
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "kernels/cuda/host/launch_stream.h"

#define TANDEM_LAUNCH(kernel, grid, block, shared, stream, ...) \
  TANDEM_LAUNCH_CLUSTERS(kernel, grid, block, 1, shared, stream __VA_OPT__(, ) __VA_ARGS__)
#define TANDEM_LAUNCH_CLUSTERS(kernel, grid, block, cluster, shared, stream, ...)    \
  ::tandem::cuda::launch_kernel(kernel, (grid), (block), (cluster), false, (shared), \
                                (stream)__VA_OPT__(, ) __VA_ARGS__)
#define TANDEM_LAUNCH_COOPERATIVE(kernel, grid, block, shared, stream, ...) \
  ::tandem::cuda::launch_kernel(kernel, (grid), (block), 1, true, (shared), \
                                (stream)__VA_OPT__(, ) __VA_ARGS__)
#define TANDEM_DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]

namespace tandem::cuda {

__device__ __forceinline__ void wait_for_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Failures are left in cudaGetLastError.
template <class... Parameters, class... Arguments>
void launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, unsigned cluster,
                   bool cooperative, size_t shared, LaunchStream stream, Arguments&&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream.stream;
  cudaLaunchAttribute attributes[3]{};
  config.attrs = attributes;
  if (cooperative) {
    cudaLaunchAttribute& together = attributes[config.numAttrs++];
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
  }
  if (stream.overlaps && !cooperative) {
    cudaLaunchAttribute& overlap = attributes[config.numAttrs++];
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    cudaLaunchAttribute& of_cluster = attributes[config.numAttrs++];
    of_cluster.id = cudaLaunchAttributeClusterDimension;
    of_cluster.val.clusterDim.x = cluster;
    of_cluster.val.clusterDim.y = of_cluster.val.clusterDim.z = 1;
  }
  cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...);
}

}  // namespace tandem::cuda
