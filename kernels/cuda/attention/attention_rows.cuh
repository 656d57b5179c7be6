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
#include "kernels/cuda/attention/attention_running.cuh"
#include "kernels/cuda/attention/attention_scores.cuh"

namespace tandem::cuda::rows {

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
        rows.load(min(key + b * kStep + j * L::kGroups, work.key_end - 1), p.args, k[b][j],
                  v[b][j]);
    }
#pragma unroll
    for (int b = 0; b < kDepth; ++b) {
      if (is_empty(b)) continue;
      const int32_t from = first + b * kStep, last = from + kStep - 1;
      const auto value = [&](int j) -> const typename Run::KeySlice& { return v[b][j]; };
      if (bias.all_see(work, from, last)) {
        running.template add<false>(k[b], value, key + b * kStep, work, bias);
      } else {
        running.template add<true>(k[b], value, key + b * kStep, work, bias);
      }
    }
  }
  write_sums<V>(p.args, work, which, running, *static_cast<WarpSums<kDim, kQueries>*>(shared));
}

// Blocks of a multiprocessor, as registers allow. An item's wait for its number, its pages and its
// keys is longer than its work where it has few keys: of one query, three blocks with a batch in
// flight each are ahead of two with two (on an H100 with 64 keys a third, with 350 nothing).
template <class V, int kQueries>
constexpr bool kOneBatch = kQueries == 1 && V::kOneVector && !V::Bias::kOptions;
template <class V, int kQueries>
constexpr int kBlocks = kOneBatch<V, kQueries>           ? 3
                        : kQueries <= 4 && V::kOneVector ? 2
                                                         : 1;

// Whether what says of an item which it is waits in shared memory, where it takes no registers. (Of
// 8-bit pages compilers for GPUs before Hopper then spill others.)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
template <class V, int kQueries>
constexpr bool kSharedWork = kQueries > 1 && V::Bias::kOptions && !kIn8Bits<typename V::Stored>;
#else
template <class V, int kQueries>
constexpr bool kSharedWork = kQueries > 1 && V::Bias::kOptions;
#endif

template <class V, int kQueries>
__device__ __forceinline__ void attend_item(const AttentionKernelParams& p, int item) {
  using Type = typename V::Type;
  constexpr int kDepth = kQueries == 1 && V::kOneVector && V::Bias::kOptions ? 2 : 1;
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
  const typename V::Bias::Which which(p, kQueries);
  if (V::Bias::kOptions && which.count(work) <= 0) return;
  const KeyRows<typename V::Stored> rows(p, work, kv_head_of_block(),
                                         made_anew(Lanes<Type, V::kDim>::first()), pages);
  queries.template load<V::kAligned>(p.args, work, which, p.scale_log2);
  if (p.args.written.k != nullptr) store_own_keys<Type, typename V::Stored>(p.args.written, work);
  const auto attend_all = [&](const AttentionWork& of) {
    const float4* const first_query = queries.rows[0][0];
    if (which.count(of) == 1) {
      attend<V, 1, kDepth>(p, of, which, rows, first_query, &shared);
    } else if constexpr (kQueries > 1) {
      attend<V, kQueries, kDepth>(p, of, which, rows, first_query, &shared);
    }
    if (of.chunks > 1) merge_chunks<Type, V::Bias::kOptions>(p.args, of, which);
  };
  if constexpr (kSharedWork<V, kQueries>) {
    __shared__ AttentionWork item_work;
    if (threadIdx.x == 0) item_work = work;
    __syncthreads();
    attend_all(item_work);
  } else {
    __syncthreads();
    attend_all(work);
  }
}

// The item that the block takes behind that one; below 0: none. Works without queries are the last.
inline __device__ int item_behind(const AttentionParams& p, int item) {
  const int next = item + static_cast<int>(gridDim.x);
  return next < p.work_count && p.work[next].queries > 0 ? next : -1;
}

// attend(item) of each item of the block, if it may have several. (The next one's number is looked
// up while the first is under way, and waits in shared memory, where it takes no registers.)
template <bool kManyItems, class Attend>
__device__ __forceinline__ void for_items(const AttentionParams& p, const Attend& attend) {
  if constexpr (!kManyItems) {
    attend(static_cast<int>(blockIdx.x));
  } else {
    __shared__ int next;
    for (int item = static_cast<int>(blockIdx.x); item >= 0; item = next) {
      const bool shares = p.work_count > static_cast<int>(gridDim.x);
      if (shares) {
        __syncthreads();
        if (threadIdx.x == 0) next = item_behind(p, item);
      }
      attend(item);
      if (!shares) return;
      __syncthreads();
    }
  }
}

template <class V, int kQueries>
__global__ void __launch_bounds__(kThreads, (kBlocks<V, kQueries>))
    rows_kernel(const __grid_constant__ AttentionKernelParams p) {
  wait_for_earlier_kernels();
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 890
  if constexpr (std::is_same_v<typename V::Stored, F8>)
    __trap();  // DeviceBackend::f8_pages says so
  else
#endif
    for_items<V::kManyItems>(p.args, [&](int item) { attend_item<V, kQueries>(p, item); });
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

// Stored: F8 or I8 of pages in 8 bits; void: pages and rows are of the type of the queries.
template <class Stored, class Bias>
void run(const AttentionParams& params, LaunchStream stream) {
  const AttentionKernelParams p = kernel_params(params);
  const int dim = params.head_dim;
  for_type(params.dtype, [&](auto type) {
    using Type = decltype(type);
    using Keys = std::conditional_t<std::is_void_v<Stored>, Type, Stored>;
    if (!aligned_16(params)) {
      if (dim <= 64) {
        launch<Type, Keys, Bias, 64, false>(p, stream);
      } else {
        launch<Type, Keys, Bias, 256, false>(p, stream);
      }
    } else if (dim <= 32) {
      launch<Type, Keys, Bias, 32, true>(p, stream);
    } else if (dim <= 64) {
      launch<Type, Keys, Bias, 64, true>(p, stream);
    } else if (dim <= 128) {
      launch<Type, Keys, Bias, 128, true>(p, stream);
    } else {
      launch<Type, Keys, Bias, 256, true>(p, stream);
    }
  });
}

}  // namespace tandem::cuda::rows
