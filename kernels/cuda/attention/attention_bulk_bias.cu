// attention_rows by bulk copies with a bias by position.
#include "kernels/cuda/attention/attention_bulk.cuh"

namespace tandem::cuda::rows {

void run_bulk_with_bias(const AttentionParams& params, LaunchStream stream) {
  run_by_bulk<WithBias>(params, stream);
}

}  // namespace tandem::cuda::rows
