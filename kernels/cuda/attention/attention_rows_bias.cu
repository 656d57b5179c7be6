// attention_rows with a bias by position.
#include "kernels/cuda/attention_rows.cuh"

namespace tandem::cuda::rows {

void run_with_bias(const AttentionParams& params, cudaStream_t stream) {
  run<false, WithBias>(params, stream);
}

}  // namespace tandem::cuda::rows
