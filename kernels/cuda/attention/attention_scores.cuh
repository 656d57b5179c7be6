// What attention of few queries does to a score, and which keys a query sees.
#pragma once

#include "kernels/cuda/attention/attention_common.cuh"
#include "kernels/cuda/attention/attention_options.cuh"

namespace tandem::cuda::rows {

// Of a block's query i: bias(score, i, key): what a score becomes; sees(work, i, key): whether it
// sees a key. all_see: all queries all keys of [first, last]; false for some of which they do.
// (Differences of keys and queries: sums of an edge and a query would wait in a register each. Only
// with a bias and 8 queries the sums take fewer.)
struct NoWindow {
  static constexpr bool kOptions = false;
  using Which = HeadQueries;
  template <int kQueries>
  __device__ bool sees(const AttentionWork& work, int i, int32_t key) const {
    return key < work.key_end && key - i <= work.position;
  }
  __device__ bool all_see(const AttentionWork& work, int32_t, int32_t last) const {
    return last < work.key_end && last <= work.position;
  }
};
struct NoBias : NoWindow {
  __device__ NoBias(const AttentionParams&, const AttentionWork&, const HeadQueries&) {}
  __device__ float operator()(float score, int, int32_t) const { return score; }
};
struct WithBias : NoWindow {
  BiasRow row;
  __device__ WithBias(const AttentionParams& p, const AttentionWork& work, const HeadQueries& which)
      : row(p, work, which.head(0)) {}
  template <int kQueries>
  __device__ bool sees(const AttentionWork& work, int i, int32_t key) const {
    if constexpr (kQueries > 4) return key < min(work.key_end, work.position + i + 1);
    return NoWindow::sees<kQueries>(work, i, key);
  }
  __device__ float operator()(float score, int query, int32_t key) const {
    return row.add(score, key - query);
  }
};
struct WithOptions {
  static constexpr bool kOptions = true;
  using Which = GroupQueries;
  const AttentionParams& p;
  const AttentionWork& work;
  const GroupQueries& which;
  float inverse_cap;
  int32_t back, ahead;  // query 0 sees [back, ahead], as far as the item has them
  __device__ WithOptions(const AttentionParams& params, const AttentionWork& item,
                         const GroupQueries& queries)
      : p(params), work(item), which(queries), inverse_cap(SoftCap(params).inverse) {
    const WindowEdges edges(params, item);
    back = edges.back;
    ahead = min(edges.ahead, item.position);
  }
  template <int kQueries>
  __device__ bool sees(const AttentionWork&, int i, int32_t key) const {
    const int32_t at = key - which.query(i);
    return at >= back && at <= ahead && key < work.key_end;
  }
  __device__ bool all_see(const AttentionWork&, int32_t first, int32_t last) const {
    return first - (kRowsPerBlock - 1) >= back && last <= ahead && last < work.key_end;
  }
  __device__ float operator()(float score, int i, int32_t key) const {
    score = SoftCap(p.soft_cap, inverse_cap).capped(score);
    return p.bias == nullptr ? score
                             : BiasRow(p, work, which.head(i)).add(score, key - which.query(i));
  }
};

}  // namespace tandem::cuda::rows
