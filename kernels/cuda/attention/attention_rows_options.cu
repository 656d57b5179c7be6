// attention_rows with windows, soft caps or sums for a merge.
#include "kernels/cuda/attention/attention_rows.cuh"

namespace tandem::cuda::rows {

void run_with_options(const AttentionParams& params, LaunchStream stream) {
  run<void, WithOptions>(params, stream);
}

}  // namespace tandem::cuda::rows
