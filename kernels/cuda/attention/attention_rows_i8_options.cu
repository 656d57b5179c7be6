// attention_rows of pages in i8, with a bias, windows, soft caps or sums for a merge.
#include "kernels/cuda/attention/attention_rows.cuh"

namespace tandem::cuda::rows {

void run_i8_with_options(const AttentionParams& params, LaunchStream stream) {
  run<I8, WithOptions>(params, stream);
}

}  // namespace tandem::cuda::rows
