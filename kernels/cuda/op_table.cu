// CUDA's table of ops, and what its functions share.
#include "kernels/cuda/backend.h"
#include "kernels/cuda/host/failure.h"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {

const OpTable kCudaOps = {pack_weight, quantize_weight, takes_decoder_step,
#define TANDEM_OP_ENTRY(name, Args, file) name,
                          TANDEM_OPS(TANDEM_OP_ENTRY)
#undef TANDEM_OP_ENTRY
};

LaunchStream stream_of(Context& ctx) { return static_cast<CudaBackend&>(ctx.backend()).launches(); }

void after_launch(const char* op) {
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) cuda_failed(__FILE__, __LINE__, op, error);
}

}  // namespace tandem::cuda
