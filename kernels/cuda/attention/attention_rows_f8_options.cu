// attention_rows of pages in f8, with a bias, windows, soft caps or sums for a merge.
#include "kernels/cuda/attention/attention_rows.cuh"

#if defined(__CUDACC__)
#pragma nv_diag_suppress 177  // where there are no 8-bit floats nothing calls the options
#endif

namespace tandem::cuda::rows {

void run_f8_with_options(const AttentionParams& params, LaunchStream stream) {
  run<F8, WithOptions>(params, stream);
}

}  // namespace tandem::cuda::rows
