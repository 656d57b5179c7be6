// attention_rows of pages in i8. (With a bias they are those with options.)
#include "kernels/cuda/attention/attention_rows.cuh"

namespace tandem::cuda::rows {

void run_i8(const AttentionParams& params, LaunchStream stream) { run<I8, NoBias>(params, stream); }

}  // namespace tandem::cuda::rows
