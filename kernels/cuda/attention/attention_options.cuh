// What attention does only where a batch asks for it: windows, soft caps, sums for a merge. Kernels
// compiled with it ask for each at run time, a bias too; the others have nothing of it.
#pragma once

#include "kernels/cuda/attention/attention_common.cuh"

namespace tandem::cuda {

// The keys that the queries of an item see, by their number in the sequence.
struct WindowEdges {
  static constexpr int32_t kFar = AttentionWork::kEverything;
  int32_t back, ahead;  // of the first query: it sees [back, ahead], query i those i further on

  __device__ WindowEdges(const AttentionParams& p, const AttentionWork& work)
      : back(p.window_back < 0 ? -kFar : work.query_position - p.window_back),
        ahead(p.window_ahead < 0 ? kFar : work.query_position + p.window_ahead) {}
  __device__ bool sees(int query, int32_t key) const {
    return key >= back + query && key <= ahead + query;
  }
};

// Leaves of an item the keys that one of its queries sees, from a multiple of `step` on, and of its
// chunks (of `chunk_keys`) those that have such. False: this is not one of them.
// A query's sums are the same: it sees nothing of what is left out, and where its keys stand in a
// chunk stays as it was.
inline __device__ bool narrow(const AttentionParams& p, int32_t chunk_keys, int32_t step,
                              AttentionWork& work) {
  const WindowEdges edges(p, work);
  const int32_t begin = max(edges.back, 0), last = edges.ahead + work.queries - 1;
  const int32_t first_chunk = begin / chunk_keys;
  const int32_t last_chunk = min(last / chunk_keys, work.chunks - 1);
  if (work.chunk < first_chunk || work.chunk > last_chunk) return false;
  work.key_begin = max(work.key_begin, begin / step * step);
  work.key_end = min(work.key_end, last + 1);
  work.chunk -= first_chunk;
  work.chunks = last_chunk - first_chunk + 1;
  return true;
}

// Of scores, which are times log2 e.
struct SoftCap {
  float cap, inverse;

  __device__ explicit SoftCap(const AttentionParams& p)
      : cap(p.soft_cap * static_cast<float>(kLog2e)), inverse(1.0f / cap) {}
  // For where registers are few: `inverse` is kept, the other made of the parameter at each use.
  __device__ SoftCap(float soft_cap, float kept_inverse) : inverse(kept_inverse) {
#if defined(__CUDA_ARCH__)
    asm volatile("" : "+f"(soft_cap));
#endif
    cap = soft_cap * static_cast<float>(kLog2e);
  }
  __device__ float capped(float score) const {
    return cap == 0.0f ? score : cap * tanhf(score * inverse);
  }
};

}  // namespace tandem::cuda
