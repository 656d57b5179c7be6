// attention_rows where pages hold a head's keys one behind the other: bulk copies bring keys and
// values to shared memory, and lanes take them from there, each the keys that it would have loaded,
// in the same order: the bits are attention_rows.cuh's.
//
// A stage holds the keys of one batch of each group and their values, 32 KiB, whatever type and
// head size. Stages are filled in turn: the first ones of an item by a warp each, before queries
// are loaded; later ones, when all warps have left them, by warps in turn, while the others go on.
#pragma once

#include "kernels/cuda/attention/attention_rows.cuh"
#include "kernels/cuda/hardware/bulk_copy.cuh"

namespace tandem::cuda::rows {

// Three leave room for a second block on a multiprocessor of 227 KiB.
constexpr int kStages = 3;
constexpr int kStageBytes = 32 << 10;
constexpr int kStagesBytes = kStages * kStageBytes;
// Keys of a page for which a copy is worth while; pages of a chunk then.
constexpr int kLeastBulkPage = 4;
constexpr int kMostBulkPages = kKeysPerChunk / kLeastBulkPage + 1;
constexpr int kMostBulkQueries = 4;

// Fewer at a time than without the stages, for whose sake two blocks have room.
template <class V, int kQueries>
using BulkSums = WarpSums<V::kDim, kQueries, 256>;

// The stages, and how far a block is with them.
template <class V>
struct KeyStages {
  using Element = typename V::Type::Element;
  using L = Lanes<typename V::Type, V::kDim>;
  static constexpr int kStep = L::kGroups * kBatch;  // keys of a stage
  static constexpr int kValues = kStep * V::kDim * static_cast<int>(sizeof(Element));
  static_assert(V::kOneVector && 2 * kValues == kStageBytes && kKeysPerChunk % kStep == 0);

  // Of each stage: its bytes are there; all warps have left it.
  struct Barriers {
    CopyBarrier full[kStages], left[kStages];
  };
  unsigned char* memory;
  Barriers& barriers;
  uint32_t parities = 0;  // bit s: of the phases that stage s is in

  // The caller synchronises.
  __device__ KeyStages(unsigned char* at, Barriers& in_shared) : memory(at), barriers(in_shared) {
    if (threadIdx.x != 0) return;
    for (int s = 0; s < kStages; ++s) {
      make_copy_barrier(&barriers.full[s], 1);
      make_copy_barrier(&barriers.left[s], kWarps);
    }
    copy_barriers_made();
  }

  __device__ uint32_t parity(int stage) const { return parities >> stage & 1; }

  // By a warp: the keys from `first` on, and their values, to a stage that nobody reads. number(i):
  // of the sequence's i-th page.
  template <class Number>
  __device__ void fill(const AttentionKernelParams& p, const AttentionWork& work, int32_t first,
                       int stage, const Number& number) const {
    constexpr int kSize = static_cast<int>(sizeof(Element));
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int32_t last = min(first + kStep, work.key_end) - 1;
    const int32_t row = p.args.head_dim * kSize, size = p.args.block_size;
    CopyBarrier* const full = &barriers.full[stage];
    if (lane == 0) arrive_and_expect(full, static_cast<uint32_t>(2 * (last + 1 - first) * row));
    __syncwarp();
    const int64_t head = kv_head_of_block() * p.args.head_stride * kSize;
    const auto page_bytes = static_cast<int32_t>(p.args.page_stride * kSize);
    const int32_t first_page = p.page.quotient(first), last_page = p.page.quotient(last);
    const bool value = lane % 2 == 1;  // odd lanes bring values
    const char* const base = static_cast<const char*>(value ? p.v_base : p.k_base) + head;
    for (int32_t page = first_page + lane / 2; page <= last_page; page += kWarpSize / 2) {
      const int32_t begin = page * size, from = max(begin, first), to = min(begin + size - 1, last);
      bulk_copy(memory + stage * kStageBytes + (value ? kValues : 0) + (from - first) * row,
                forward(forward(base, number(page), page_bytes), from - begin, row),
                static_cast<uint32_t>((to + 1 - from) * row), full);
    }
  }
};

// What attend() does, out of the stages. fill(first, stage) by one warp.
template <class V, int kQueries, class Fill>
__device__ void attend_stages(const AttentionKernelParams& p, const AttentionWork& work,
                              const typename V::Bias::Which& which, KeyStages<V>& stages,
                              const float4* queries, void* shared, const Fill& fill) {
  using L = Lanes<typename V::Type, V::kDim>;
  using Run = Running<typename V::Type, typename V::Stored, V::kDim, V::kAligned, kQueries>;
  using Element = typename KeyStages<V>::Element;
  constexpr int kStep = KeyStages<V>::kStep;
  Run running(queries);
  const typename V::Bias bias(p.args, work, which);
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int32_t last_of_all = min(work.key_end - 1, work.position);
  int stage = 0;
  for (int32_t first = work.key_begin; first < work.key_end; first += kStep) {
    const int32_t last = first + kStep - 1;
    wait_for_phase(&stages.barriers.full[stage], stages.parity(stage));
    if (first + warp * (kWarpSize / L::kLanes) < work.key_end) {  // else nothing would change
      const int32_t in_group = static_cast<int32_t>(threadIdx.x) / L::kLanes;
      const auto load = [&](int j, int behind) {
        const int32_t row = min(in_group + j * L::kGroups, work.key_end - 1 - first);
        const unsigned char* const at = stages.memory + stage * kStageBytes + behind;
        typename Run::KeySlice slice;
        slice.load_lane(reinterpret_cast<const Element*>(at) + row * p.args.head_dim + L::first(),
                        p.args.head_dim);
        return slice;
      };
      typename Run::KeySlice k[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) k[j] = load(j, 0);
      const auto value = [&](int j) { return load(j, KeyStages<V>::kValues); };
      if (last <= last_of_all && bias.all_see(work, first, last)) {
        running.template add<false>(k, value, first + in_group, work, bias);
      } else {
        running.template add<true>(k, value, first + in_group, work, bias);
      }
    }
    __syncwarp();
    if (static_cast<int>(threadIdx.x) % kWarpSize == 0) arrive(&stages.barriers.left[stage]);
    if (first + kStages * kStep < work.key_end && warp == first / kStep % kWarps) {
      wait_for_phase(&stages.barriers.left[stage], stages.parity(stage));
      fill(first + kStages * kStep, stage);
    }
    stages.parities ^= 1u << stage;
    stage = stage + 1 == kStages ? 0 : stage + 1;
  }
  write_sums<V>(p.args, work, which, running, *static_cast<BulkSums<V, kQueries>*>(shared));
}

template <class V, int kQueries>
__device__ __forceinline__ void attend_item_by_bulk(const AttentionKernelParams& p, int item,
                                                    KeyStages<V>& stages) {
  using Type = typename V::Type;
  constexpr int kStep = KeyStages<V>::kStep;
  __shared__ BulkSums<V, kQueries> sums;
  __shared__ Queries<Type, V::kDim, kQueries> queries;
  __shared__ int32_t pages[kMostBulkPages];  // of the chunk, for stages that are filled again
  const AttentionWork work = load_work(p.args.work, item);
  if (work.queries == 0) return;
  const typename V::Bias::Which which(p, work, kQueries);
  const int32_t* const numbers = p.args.page_indices + work.kv_base;
  // Before queries are loaded and own keys are written; but stages that have these, behind it.
  const int stage = static_cast<int>(threadIdx.x) / kWarpSize;
  const int32_t first = work.key_begin + stage * kStep;
  const bool fills = stage < kStages && first < work.key_end;
  const bool own = p.args.written.k != nullptr && min(first + kStep, work.key_end) > work.position;
  const auto number = [&](int32_t page) { return numbers[page]; };
  if (fills && !own) stages.fill(p, work, first, stage, number);
  if (work.key_end - work.key_begin > kStages * kStep) {
    const int32_t first_page = p.page.quotient(work.key_begin);
    const int32_t count = p.page.quotient(work.key_end - 1) - first_page + 1;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads)
      pages[i] = numbers[first_page + i];
  }
  queries.template load<V::kAligned>(p.args, work, which, p.scale_log2);
  if (p.args.written.k != nullptr) {
    store_own_keys<Type, typename V::Stored>(p.args.written, work);
    global_stores_before_copies();
  }
  __syncthreads();
  if (fills && own) stages.fill(p, work, first, stage, number);
  const auto fill = [&](int32_t from, int to) {
    const int32_t first_page = p.page.quotient(work.key_begin);
    stages.fill(p, work, from, to, [&](int32_t page) { return pages[page - first_page]; });
  };
  const float4* const first_query = queries.rows[0][0];
  if (which.count == 1) {
    attend_stages<V, 1>(p, work, which, stages, first_query, &sums, fill);
  } else if constexpr (kQueries > 1) {
    attend_stages<V, kQueries>(p, work, which, stages, first_query, &sums, fill);
  }
  if (work.chunks > 1) merge_chunks<Type, V::Bias::kOptions>(p.args, work, which);
}

template <class V, int kQueries>
__global__ void __launch_bounds__(kThreads, 2)
    rows_bulk_kernel(const __grid_constant__ AttentionKernelParams p) {
  wait_for_earlier_kernels();
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  TANDEM_DYNAMIC_SHARED(memory);
  __shared__ typename KeyStages<V>::Barriers barriers;
  KeyStages<V> stages(memory, barriers);
  __syncthreads();
  for_items<true>(p.args, [&](int item) { attend_item_by_bulk<V, kQueries>(p, item, stages); });
#else
  __trap();  // bulk_copies_possible says so
#endif
}

template <class Type, class Bias, int kDim, int kQueries>
void launch_bulk(const AttentionKernelParams& p, LaunchStream stream) {
  using V = Variant<Type, Type, Bias, kDim, true>;
  constexpr auto kernel = rows_bulk_kernel<V, kQueries>;
  // All that shared memory can be: else two blocks might not fit.
  TANDEM_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kStagesBytes));
  TANDEM_CUDA_CHECK(
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, 100));
  const int32_t works = p.args.work_count;
  const dim3 grid = attention_grid(
      p.args, p.args.blocks > 0 ? std::min(p.args.blocks, works) : works, p.args.group);
  TANDEM_LAUNCH((rows_bulk_kernel<V, kQueries>), grid, kThreads, kStagesBytes, stream, p);
  TANDEM_CUDA_CHECK(cudaGetLastError());
}

template <class Bias>
void run_by_bulk(const AttentionParams& params, LaunchStream stream) {
  const AttentionKernelParams p = kernel_params(params);
  for_type(params.dtype, [&](auto type) {
    using Type = decltype(type);
    const bool one = params.most_queries == 1;
    if (params.head_dim <= 64) {
      (one ? launch_bulk<Type, Bias, 64, 1>
           : launch_bulk<Type, Bias, 64, kMostBulkQueries>)(p, stream);
    } else {
      (one ? launch_bulk<Type, Bias, 128, 1>
           : launch_bulk<Type, Bias, 128, kMostBulkQueries>)(p, stream);
    }
  });
}

}  // namespace tandem::cuda::rows
