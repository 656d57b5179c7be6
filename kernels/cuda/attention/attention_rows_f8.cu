// attention_rows of pages in f8. (With a bias they are those with options.)
#include "kernels/cuda/attention/attention_rows.cuh"

#if defined(__CUDACC__)
#pragma nv_diag_suppress 177  // where there are no 8-bit floats nothing calls the policy
#endif

namespace tandem::cuda::rows {

void run_f8(const AttentionParams& params, LaunchStream stream) { run<F8, NoBias>(params, stream); }

}  // namespace tandem::cuda::rows
