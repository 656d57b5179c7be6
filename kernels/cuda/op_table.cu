// CUDA's table of ops.
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {

const OpTable kCudaOps = {pack_weight, quantize_weight,
#define TANDEM_OP_ENTRY(name, Args, file) name,
                          TANDEM_OPS(TANDEM_OP_ENTRY)
#undef TANDEM_OP_ENTRY
};

}  // namespace tandem::cuda
