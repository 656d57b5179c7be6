// What attention of few queries keeps while it goes over keys, and how that becomes a result.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/attention_common.cuh"
#include "kernels/cuda/attention/attention_lanes.cuh"

namespace tandem::cuda::rows {

// What a kernel is compiled for.
template <class Type_, class Stored_, class Bias_, int kDim_, bool kAligned_>
struct Variant {
  using Type = Type_;
  using Stored = Stored_;  // of keys and values: Type, F8 or I8
  using Bias = Bias_;
  static constexpr int kDim = kDim_;
  static constexpr bool kAligned = kAligned_;
  static constexpr bool kOneVector = Lanes<Type, kDim>::kVectors == 1;
  // Whether a block may take several items. (8-bit pages with options use every register without
  // the loop: they would spill.)
  static constexpr bool kManyItems = !(Bias::kOptions && kIn8Bits<Stored>);
};

// Keys of a group between two rescalings of its sums: a part of the arithmetic.
constexpr int kBatch = 4;

// The queries of an item, times scale and log2 e, in shared memory: float4 `part` of a lane lies
// beside those of the other lanes.
template <class Type, int kDim, int kQueries>
struct Queries {
  using L = Lanes<Type, kDim>;
  static_assert(kQueries <= L::kGroups);
  float4 rows[kQueries][L::kSlice / 4][L::kLanes];

  // Each group loads a row; the caller synchronises.
  template <bool kAligned, class Which>
  __device__ void load(const AttentionParams& p, const AttentionWork& work, const Which& which,
                       float scale) {
    const int i = static_cast<int>(threadIdx.x) / L::kLanes;
    if (i >= kQueries) return;
    const int at = min(i, which.count(work) - 1);
    const int64_t row = work.query_row + which.query(at);
    Slice<Type, kDim, kAligned> slice;
    slice.load(static_cast<const typename Type::Element*>(p.q) + row * p.q_stride +
                   int64_t{which.head(at)} * p.head_dim,
               p.head_dim);
    float q[L::kSlice];
    slice.widen(q);
#pragma unroll
    for (int n = 0; n < L::kSlice; n += 4)
      rows[i][n / 4][threadIdx.x % L::kLanes] = {q[n] * scale, q[n + 1] * scale, q[n + 2] * scale,
                                                 q[n + 3] * scale};
  }
};

// kQueries softmaxes over the keys of one group, or of more of them, and the sums of values.
template <class Type, class Stored, int kDim, bool kAligned, int kQueries>
struct Running {
  using L = Lanes<Type, kDim>;
  using KeySlice = KvSlice<Type, Stored, kDim, kAligned>;
  const float4* q;  // the lane's first part; the next are kLanes apart
  float maximum[kQueries], sum[kQueries], values[kQueries][L::kSlice];

  __device__ explicit Running(const float4* queries) : q(queries + threadIdx.x % L::kLanes) {
#pragma unroll
    for (int i = 0; i < kQueries; ++i) {
      maximum[i] = -INFINITY;
      sum[i] = 0.0f;
#pragma unroll
      for (int n = 0; n < L::kSlice; ++n) values[i][n] = 0.0f;
    }
  }

  // Keys `key`, `key` + kGroups, ... of this lane's group; v(j): the value of the j-th. kChecked:
  // only those that a query sees.
  template <bool kChecked, class Values, class Bias>
  __device__ void add(const KeySlice (&k)[kBatch], const Values& v, int32_t key,
                      const AttentionWork& work, const Bias& bias) {
    float p[kQueries][kBatch];
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      float row[L::kSlice];
      k[j].widen(row);
#pragma unroll
      for (int i = 0; i < kQueries; ++i) {
        p[i][j] = 0.0f;
#pragma unroll
        for (int n = 0; n < L::kSlice; n += 4) {
          const float4 part = q[(i * L::kSlice + n) / 4 * L::kLanes];
          p[i][j] = fmaf(part.x, row[n], p[i][j]);
          p[i][j] = fmaf(part.y, row[n + 1], p[i][j]);
          p[i][j] = fmaf(part.z, row[n + 2], p[i][j]);
          p[i][j] = fmaf(part.w, row[n + 3], p[i][j]);
        }
      }
    }
    const auto sees = [&](int i, int j) {
      return bias.template sees<kQueries>(work, i, key + j * L::kGroups);
    };
#pragma unroll
    for (int i = 0; i < kQueries; ++i) {
      float top = maximum[i];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
#pragma unroll
        for (int lane = 1; lane < L::kLanes; lane *= 2)
          p[i][j] += __shfl_xor_sync(kFullWarp, p[i][j], lane);
        p[i][j] = bias(k[j].scaled(p[i][j]), i, key + j * L::kGroups);
        if (kChecked && !sees(i, j)) p[i][j] = -INFINITY;
        top = fmaxf(top, p[i][j]);
      }
      const float base = scale_base(top), factor = exp2f(maximum[i] - base);
      float added = 0.0f;
#pragma unroll
      for (int j = 0; j < kBatch; ++j) added += p[i][j] = exp2f(p[i][j] - base);
      maximum[i] = top;
      sum[i] = fmaf(sum[i], factor, added);
#pragma unroll
      for (int n = 0; n < L::kSlice; ++n) values[i][n] *= factor;
    }
#pragma unroll
    for (int j = 0; j < kBatch; ++j) {
      float row[L::kSlice];
      const KeySlice& value = v(j);
      value.widen(row);
#pragma unroll
      for (int i = 0; i < kQueries; ++i)
        if (!kChecked || sees(i, j)) {  // not 0 times what may be NaN
#pragma unroll
          for (int n = 0; n < L::kSlice; ++n)
            values[i][n] = fmaf(value.scaled(p[i][j]), row[n], values[i][n]);
        }
    }
  }

  // The warp's first group gets the sums of all of its groups.
  __device__ void merge_groups() {
#pragma unroll
    for (int lane = L::kLanes; lane < kWarpSize; lane *= 2)
#pragma unroll
      for (int i = 0; i < kQueries; ++i) {
        const float other = __shfl_xor_sync(kFullWarp, maximum[i], lane);
        const float top = fmaxf(maximum[i], other), base = scale_base(top);
        const float mine = exp2f(maximum[i] - base), others = exp2f(other - base);
        const auto merge = [&](float& x) {
          x = fmaf(x, mine, __shfl_xor_sync(kFullWarp, x, lane) * others);
        };
        maximum[i] = top;
        merge(sum[i]);
#pragma unroll
        for (int n = 0; n < L::kSlice; ++n) merge(values[i][n]);
      }
  }
};

// What warps leave in shared memory for kPass queries at a time: up to kElements of each.
template <int kDim, int kQueries, int kElements = 512>
struct WarpSums {
  static constexpr int kPass = kQueries < kElements / kDim ? kQueries : kElements / kDim;
  struct Part {
    float values[kDim], maximum, sum;
  };
  Part parts[kWarps][kPass];
};

// Adds up the warps' sums of query `first + i`, element d; chunk's part or the result.
template <class Type, bool kOptions, int kDim, class Which, class Sums>
__device__ void write_rows(const AttentionParams& p, const AttentionWork& work, const Which& which,
                           int first, const Sums& sums) {
  for (int at = static_cast<int>(threadIdx.x); at < sums.kPass * kDim; at += kThreads) {
    const int i = at / kDim, d = at % kDim;
    if (d >= p.head_dim || first + i >= which.count(work)) continue;
    const int query = which.query(first + i), head = which.head(first + i);
    float maximum = -INFINITY;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) maximum = fmaxf(maximum, sums.parts[w][i].maximum);
    const float base = scale_base(maximum);
    float sum = 0.0f, value = 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float factor = exp2f(sums.parts[w][i].maximum - base);
      sum = fmaf(sums.parts[w][i].sum, factor, sum);
      value = fmaf(sums.parts[w][i].values[d], factor, value);
    }
    if (work.chunks > 1) {
      float* part = partial_at(p, work, work.chunk, query, head);
      part[d] = value;
      if (d == 0) {
        part[p.head_dim] = maximum;
        part[p.head_dim + 1] = sum;
      }
    } else {
      static_cast<typename Type::Element*>(
          p.out)[(work.query_row + query) * p.out_stride + int64_t{head} * p.head_dim + d] =
          Type::narrow(value * (1.0f / sum));
      if (kOptions && d == 0) write_log_sum(p, work.query_row + query, head, maximum, sum);
    }
  }
}

// Merges what the block's groups of lanes have, and writes it.
template <class V, int kQueries, class Sums>
__device__ __forceinline__ void write_sums(
    const AttentionParams& p, const AttentionWork& work, const typename V::Bias::Which& which,
    Running<typename V::Type, typename V::Stored, V::kDim, V::kAligned, kQueries>& running,
    Sums& sums) {
  using Type = typename V::Type;
  using L = Lanes<Type, V::kDim>;
  running.merge_groups();
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
#pragma unroll
  for (int i = 0; i < kQueries; ++i) {
    typename Sums::Part& part = sums.parts[warp][i % Sums::kPass];
    if (static_cast<int>(threadIdx.x) % kWarpSize < L::kLanes) {
#pragma unroll
      for (int n = 0; n < L::kSlice; ++n) part.values[L::element(n)] = running.values[i][n];
      part.maximum = running.maximum[i];
      part.sum = running.sum[i];
    }
    if (i % Sums::kPass == Sums::kPass - 1) {
      __syncthreads();
      write_rows<Type, V::Bias::kOptions, V::kDim>(p, work, which, i - (Sums::kPass - 1), sums);
      __syncthreads();
    }
  }
}

}  // namespace tandem::cuda::rows
