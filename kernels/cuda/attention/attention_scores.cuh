// What attention of few queries does to a score, and which keys a query sees.
#pragma once

#include "kernels/cuda/attention/attention_common.cuh"
#include "kernels/cuda/attention/attention_options.cuh"

namespace tandem::cuda::rows {

// Of a block's query i: bias(score, i, key): what a score becomes; sees(i, key): whether a window
// has it; query(i): which of the item it is. all_see: all queries all keys of [first, last].
struct NoWindow {
  static constexpr bool kOptions = false;
  using Which = HeadQueries;
  __device__ int query(int i) const { return i; }
  __device__ bool sees(int, int32_t) const { return true; }
  __device__ bool all_see(const AttentionWork&, int32_t, int32_t) const { return true; }
};
struct NoBias : NoWindow {
  __device__ NoBias(const AttentionParams&, const AttentionWork&, const HeadQueries&) {}
  __device__ float operator()(float score, int, int32_t) const { return score; }
};
struct WithBias : NoWindow {
  BiasRow row;
  __device__ WithBias(const AttentionParams& p, const AttentionWork& work, const HeadQueries& which)
      : row(p, work, which.head(0)) {}
  __device__ float operator()(float score, int query, int32_t key) const {
    return row.add(score, key - query);
  }
};
struct WithOptions : SoftCap, WindowEdges {
  static constexpr bool kOptions = true;
  using Which = GroupQueries;
  const AttentionParams& p;
  const AttentionWork& work;
  const GroupQueries& which;
  __device__ WithOptions(const AttentionParams& params, const AttentionWork& item,
                         const GroupQueries& queries)
      : SoftCap(params), WindowEdges(params, item), p(params), work(item), which(queries) {}
  __device__ int query(int i) const { return which.query(i); }
  __device__ bool sees(int i, int32_t key) const { return WindowEdges::sees(query(i), key); }
  __device__ float operator()(float score, int i, int32_t key) const {
    score = capped(score);
    return p.bias == nullptr ? score : BiasRow(p, work, which.head(i)).add(score, key - query(i));
  }
};

}  // namespace tandem::cuda::rows
