// attention_rows of pages in 8 bits. One set of kernels, with a bias or without: a test that all
// threads answer alike, for each score.
#include "kernels/cuda/attention/attention_rows.cuh"

#if defined(__CUDACC__)
#pragma nv_diag_suppress 177  // where there are no 8-bit floats nothing calls the bias
#endif

namespace tandem::cuda::rows {
namespace {

struct PerhapsBias : NoWindow {
  const AttentionParams& p;
  BiasRow row;
  __device__ PerhapsBias(const AttentionParams& params, const AttentionWork& work,
                         const HeadQueries& which)
      : p(params), row(params, work, which.head(0)) {}
  __device__ float operator()(float score, int query, int32_t key) const {
    return p.bias == nullptr ? score : row.add(score, key - query);
  }
};

}  // namespace

void run_f8(const AttentionParams& params, LaunchStream stream) {
  run<true, PerhapsBias>(params, stream);
}

}  // namespace tandem::cuda::rows
