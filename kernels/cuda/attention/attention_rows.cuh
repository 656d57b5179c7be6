// Attention of few queries, bound by memory: decoding, beams over shared keys, short chunks of a
// prompt, and everything in f32.
//
// A block is one item of the plan and one head (with options: all heads of a head of keys). A group
// of lanes holds a key, 16 bytes per lane and load; groups take keys in turn, several loads in
// flight, and keep a running softmax of their own for each query. Groups are merged within a warp
// by shuffles, warps through shared memory, chunks through global memory, all in fixed orders. What
// a query goes through depends on its head size and on the number of a key in its chunk alone, not
// on page size, batch or the other queries.
//
// Each attention_rows*.cu compiles some of its variants.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/attention/attention_common.cuh"
#include "kernels/cuda/attention/attention_key_rows.cuh"
#include "kernels/cuda/attention/attention_lanes.cuh"
#include "kernels/cuda/attention/attention_scores.cuh"

namespace tandem::cuda::rows {

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
    const int at = min(i, which.count - 1);
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

  // Keys `key`, `key` + kGroups, ... of this lane's group. kChecked: only those that a query sees.
  template <bool kChecked, class Bias>
  __device__ void add(const KeySlice (&k)[kBatch], const KeySlice (&v)[kBatch], int32_t key,
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
    // A query that sees nothing of an item has end <= key.
    const auto sees = [&](int i, int j) {
      const int32_t at = key + j * L::kGroups;
      return bias.sees(i, at) && at < min(work.key_end, work.position + bias.query(i) + 1);
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
      v[j].widen(row);
#pragma unroll
      for (int i = 0; i < kQueries; ++i)
        if (!kChecked || sees(i, j)) {  // not 0 times what may be NaN
#pragma unroll
          for (int n = 0; n < L::kSlice; ++n)
            values[i][n] = fmaf(v[j].scaled(p[i][j]), row[n], values[i][n]);
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

// What warps leave in shared memory for kPass queries at a time.
template <int kDim, int kQueries>
struct WarpSums {
  static constexpr int kPass = kQueries < 512 / kDim ? kQueries : 512 / kDim;
  struct Part {
    float values[kDim], maximum, sum;
  };
  Part parts[kWarps][kPass];
};

// Adds up the warps' sums of query `first + i`, element d; chunk's part or the result.
template <class Type, bool kOptions, class Which, int kDim, int kQueries>
__device__ void write_rows(const AttentionParams& p, const AttentionWork& work, const Which& which,
                           int first, const WarpSums<kDim, kQueries>& sums) {
  for (int at = static_cast<int>(threadIdx.x); at < sums.kPass * kDim; at += kThreads) {
    const int i = at / kDim, d = at % kDim;
    if (d >= p.head_dim || first + i >= which.count) continue;
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

// kDepth: batches whose loads are in flight together, as registers allow.
template <class V, int kQueries, int kDepth>
__device__ void attend(const AttentionKernelParams& p, const AttentionWork& work,
                       const typename V::Bias::Which& which,
                       const KeyRows<typename V::Stored>& rows, const float4* queries,
                       void* shared) {
  using Type = typename V::Type;
  constexpr int kDim = V::kDim;
  using L = Lanes<Type, kDim>;
  using Run = Running<Type, typename V::Stored, kDim, V::kAligned, kQueries>;
  constexpr int kStep = L::kGroups * kBatch;
  Run running(queries);
  const typename V::Bias bias(p.args, work, which);
  const int warp_key = static_cast<int>(threadIdx.x) / kWarpSize * (kWarpSize / L::kLanes);
  const int32_t last_of_all = min(work.key_end - 1, work.position);
  for (int32_t first = work.key_begin; first + warp_key < work.key_end; first += kStep * kDepth) {
    const int32_t key = first + static_cast<int32_t>(threadIdx.x) / L::kLanes;
    typename Run::KeySlice k[kDepth][kBatch], v[kDepth][kBatch];
    // A batch without keys of this warp's would change nothing; the first one has some.
    const auto is_empty = [&](int b) {
      return b > 0 && first + b * kStep + warp_key >= work.key_end;
    };
#pragma unroll
    for (int b = 0; b < kDepth; ++b) {
      if (is_empty(b)) continue;
#pragma unroll
      for (int j = 0; j < kBatch; ++j)
        rows.load(min(key + b * kStep + j * L::kGroups, work.key_end - 1), p.args.head_dim, k[b][j],
                  v[b][j]);
    }
#pragma unroll
    for (int b = 0; b < kDepth; ++b) {
      if (is_empty(b)) continue;
      const int32_t from = first + b * kStep, last = from + kStep - 1;
      if (last <= last_of_all && bias.all_see(work, from, last)) {
        running.template add<false>(k[b], v[b], key + b * kStep, work, bias);
      } else {
        running.template add<true>(k[b], v[b], key + b * kStep, work, bias);
      }
    }
  }
  running.merge_groups();

  using Sums = WarpSums<kDim, kQueries>;
  Sums& sums = *static_cast<Sums*>(shared);
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
      write_rows<Type, V::Bias::kOptions>(p.args, work, which, i - (Sums::kPass - 1), sums);
      __syncthreads();
    }
  }
}

// What a kernel is compiled for.
template <class Type_, class Stored_, class Bias_, int kDim_, bool kAligned_>
struct Variant {
  using Type = Type_;
  using Stored = Stored_;  // of keys and values: Type, or F8
  using Bias = Bias_;
  static constexpr int kDim = kDim_;
  static constexpr bool kAligned = kAligned_;
  static constexpr bool kOneVector = Lanes<Type, kDim>::kVectors == 1;
  // Whether a block may take several items. (8-bit pages with options use every register without
  // the loop: they would spill.)
  static constexpr bool kManyItems = !(Bias::kOptions && std::is_same_v<Stored, F8>);
};

template <class V, int kQueries>
__device__ __forceinline__ void attend_item(const AttentionKernelParams& p, int item) {
  using Type = typename V::Type;
  constexpr int kDepth = kQueries == 1 && V::kOneVector ? 2 : 1;
  __shared__ WarpSums<V::kDim, kQueries> shared;
  __shared__ Queries<Type, V::kDim, kQueries> queries;
  __shared__ int32_t pages[kKeysPerChunk + 1];
  AttentionWork work = load_work(p.args.work, item);
  if (work.queries == 0) return;
  if constexpr (V::Bias::kOptions) {
    constexpr int kStep = Lanes<Type, V::kDim>::kGroups * kBatch;
    static_assert(kKeysPerChunk % kStep == 0);
    if (!narrow(p.args, kKeysPerChunk, kStep, work)) return;
  }
  const typename V::Bias::Which which(p, work, kQueries);
  if (V::Bias::kOptions && which.count <= 0) return;
  const KeyRows<typename V::Stored> rows(p, work, kv_head_of_block(), Lanes<Type, V::kDim>::first(),
                                         pages);
  queries.template load<V::kAligned>(p.args, work, which, p.scale_log2);
  if (p.args.written.k != nullptr) store_own_keys<Type, typename V::Stored>(p.args.written, work);
  __syncthreads();
  const float4* const first_query = queries.rows[0][0];
  if (which.count == 1) {
    attend<V, 1, kDepth>(p, work, which, rows, first_query, &shared);
  } else if constexpr (kQueries > 1) {
    attend<V, kQueries, kDepth>(p, work, which, rows, first_query, &shared);
  }
  if (work.chunks > 1) merge_chunks<Type, V::Bias::kOptions>(p.args, work, which);
}

// The item that the block takes behind that one; below 0: none. Works without queries are the last.
inline __device__ int item_behind(const AttentionParams& p, int item) {
  const int next = item + static_cast<int>(gridDim.x);
  return next < p.work_count && p.work[next].queries > 0 ? next : -1;
}

// The block's items. (The next one's number is looked up while the first is under way, and waits in
// shared memory, where it takes no registers.)
template <class V, int kQueries>
__device__ __forceinline__ void attend_items(const AttentionKernelParams& p) {
  if constexpr (!V::kManyItems) {
    attend_item<V, kQueries>(p, static_cast<int>(blockIdx.x));
  } else {
    __shared__ int next;
    for (int item = static_cast<int>(blockIdx.x); item >= 0; item = next) {
      const bool shares = p.args.work_count > static_cast<int>(gridDim.x);
      if (shares) {
        __syncthreads();
        if (threadIdx.x == 0) next = item_behind(p.args, item);
      }
      attend_item<V, kQueries>(p, item);
      if (!shares) return;
      __syncthreads();
    }
  }
}

template <class V, int kQueries>
__global__ void __launch_bounds__(kThreads, kQueries <= 4 && V::kOneVector ? 2 : 1)
    rows_kernel(const __grid_constant__ AttentionKernelParams p) {
  wait_for_earlier_kernels();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
  if constexpr (std::is_same_v<typename V::Stored, F8>)
    __trap();  // DeviceBackend::f8_pages says so
  else
#endif
    attend_items<V, kQueries>(p);
}

template <class Type, class Stored, class Bias, int kDim, bool kAligned>
void launch(const AttentionKernelParams& p, LaunchStream stream) {
  using V = Variant<Type, Stored, Bias, kDim, kAligned>;
  constexpr int kOne = kAligned ? 1 : 8, kFew = kAligned ? 4 : 8;
  // With options the queries of a block are those of all heads that share its keys.
  const int queries = p.args.most_queries * (Bias::kOptions ? p.args.group : 1);
  const int32_t works = p.args.work_count;
  const dim3 grid = attention_grid(
      p.args, V::kManyItems && p.args.blocks > 0 ? std::min(p.args.blocks, works) : works,
      Bias::kOptions ? static_cast<int>(ceil_div(queries, queries > kFew ? 8 : kFew))
                     : p.args.group);
  if (queries > kFew) {
    TANDEM_LAUNCH((rows_kernel<V, 8>), grid, kThreads, 0, stream, p);
  } else if (queries > 1) {
    TANDEM_LAUNCH((rows_kernel<V, kFew>), grid, kThreads, 0, stream, p);
  } else {
    TANDEM_LAUNCH((rows_kernel<V, kOne>), grid, kThreads, 0, stream, p);
  }
  TANDEM_CUDA_CHECK(cudaGetLastError());
}

// kF8: pages of F8, else of the type of the queries.
template <bool kF8, class Bias>
void run(const AttentionParams& params, LaunchStream stream) {
  const AttentionKernelParams p = kernel_params(params);
  const int dim = params.head_dim;
  for_type(params.dtype, [&](auto type) {
    using Type = decltype(type);
    using Stored = std::conditional_t<kF8, F8, Type>;
    if (!aligned_16(params)) {
      if (dim <= 64) {
        launch<Type, Stored, Bias, 64, false>(p, stream);
      } else {
        launch<Type, Stored, Bias, 256, false>(p, stream);
      }
    } else if (dim <= 32) {
      launch<Type, Stored, Bias, 32, true>(p, stream);
    } else if (dim <= 64) {
      launch<Type, Stored, Bias, 64, true>(p, stream);
    } else if (dim <= 128) {
      launch<Type, Stored, Bias, 128, true>(p, stream);
    } else {
      launch<Type, Stored, Bias, 256, true>(p, stream);
    }
  });
}

}  // namespace tandem::cuda::rows
