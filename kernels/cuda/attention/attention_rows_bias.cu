// attention_rows with a bias by position.
#include "kernels/cuda/attention/attention_rows.cuh"

namespace tandem::cuda::rows {

void run_with_bias(const AttentionParams& params, LaunchStream stream) {
  run<void, WithBias>(params, stream);
}

}  // namespace tandem::cuda::rows
