// Where kernels are launched.
#pragma once

#include <cuda_runtime.h>

namespace tandem::cuda {

// A stream, and whether its kernels are launched before the earlier ones have ended (dependent
// launches). The backend chooses (CudaBackend::launches).
struct LaunchStream {
  LaunchStream(cudaStream_t of, bool dependent = false) : stream(of), overlaps(dependent) {}
  operator cudaStream_t() const { return stream; }

  cudaStream_t stream;
  bool overlaps;
};

}  // namespace tandem::cuda
