// Attention of a step's rows, a warp at a time: attention_rows' bits.
//
// There a block of eight warps has an item of the plan and a head, and each warp has every eighth
// group of keys. Here those eight parts are tasks of warps anywhere on the device, so that the few
// items of a short batch are spread over all multiprocessors. Each part goes to global memory; the
// warp that is the last of a query's parts, of all chunks, adds them up in attention_rows' order.
#pragma once

#include "kernels/cuda/attention/attention_running.cuh"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/step/step_params.h"

namespace tandem::cuda::step {

static_assert(rows::kWarps == kWarps);

// An item's queries of a head, by a warp.
struct Task {
  AttentionWork work;
  int item, head, part;  // of kWarps
};

// Where part `part` of a chunk and a query lies: head_dim sums, the maximum, the divisor.
__device__ __forceinline__ float* part_at(const Params& p, const Keys& keys, const Task& t,
                                          int chunk, int part, int query) {
  const int64_t slot = t.work.chunks > 1
                           ? t.work.partial + int64_t{chunk} * t.work.queries + query
                           : int64_t{keys.partials} + int64_t{t.item} * keys.most_queries + query;
  return p.parts + ((slot * p.heads + t.head) * kWarps + part) * (p.head_dim + 2);
}

// The bias by distance, or none, of one head, for the item's queries from `first` on. Every query
// sees every key up to its own.
struct StepBias {
  const float* values;  // null: none
  int32_t last, shift;
  int first;
  __device__ StepBias(const Params& p, const float* table, const Task& t, int first_query)
      : values(table == nullptr ? nullptr : table + int64_t{t.head} * p.bias_columns),
        last(p.bias_columns - 1),
        shift(p.bias_zero - t.work.query_position),
        first(first_query) {}
  __device__ int query(int i) const { return first + i; }
  template <int kQueries>
  __device__ bool sees(const AttentionWork& work, int i, int32_t key) const {
    return key < min(work.key_end, work.position + query(i) + 1);
  }
  __device__ float operator()(float score, int i, int32_t key) const {
    if (values == nullptr) return score;
    const float bias = __ldg(values + max(0, min(key - query(i) + shift, last)));
    return fmaf(bias, static_cast<float>(kLog2e), score);
  }
};

// One layer's attention of one kind.
struct Attention {
  const Keys& keys;
  const void* queries;  // with self-attention's keys and values behind them
  int64_t stride;
  char* pages;
  const float* bias;  // or null
  bool writes;        // the keys and values of the queries' tokens first
};

// A warp's shared memory.
template <class Type, int kDim, int kQueries>
struct TaskMemory {
  using L = rows::Lanes<Type, kDim>;
  float4 queries[kQueries][L::kSlice / 4][L::kLanes];
  static __device__ int32_t* pages(TaskMemory& of) { return reinterpret_cast<int32_t*>(&of + 1); }
};

template <class Type, int kDim, int kMostQueries>
class TaskRun {
  using T = typename Type::Element;
  using L = rows::Lanes<Type, kDim>;
  using Memory = TaskMemory<Type, kDim, kMostQueries>;
  static constexpr int kGroups = kWarpSize / L::kLanes;  // keys of the warp at a time
  static constexpr int kStep = L::kGroups * rows::kBatch;
  static_assert(L::kVectors == 1 && kKeysPerChunk % kStep == 0);

 public:
  __device__ TaskRun(const Params& p, const Attention& a, const Task& t, Memory& memory)
      : p_(p), a_(a), t_(t), memory_(memory) {}

  __device__ __forceinline__ void run() {
    load_queries();
    stage_pages();
    __syncwarp();
    if (a_.writes) store_own_keys();
    __syncwarp();
    if (t_.work.queries == 1) {
      attend<1>(0);
    } else if constexpr (kMostQueries > 1) {
      // (More at once would not fit the registers.)
#pragma unroll 1
      for (int first_query = 0; first_query < t_.work.queries; first_query += 2)
        attend<2>(first_query);
    }
    if (is_last()) merge();
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }

  __device__ void load_queries() {
    const int column = lane() % L::kLanes;
    for (int i = lane() / L::kLanes; i < kMostQueries; i += kGroups) {
      const int64_t row = t_.work.query_row + min(i, t_.work.queries - 1);
      rows::Slice<Type, kDim, true> slice;
      slice.load(static_cast<const T*>(a_.queries) + row * a_.stride + t_.head * p_.head_dim,
                 p_.head_dim);
      float q[L::kSlice];
      slice.widen(q);
      const float scale = a_.keys.scale_log2;
#pragma unroll
      for (int n = 0; n < L::kSlice; n += 4)
        memory_.queries[i][n / 4][column] = {q[n] * scale, q[n + 1] * scale, q[n + 2] * scale,
                                             q[n + 3] * scale};
    }
  }

  __device__ void stage_pages() {
    first_page_ = p_.page.quotient(t_.work.key_begin);
    const int32_t count = p_.page.quotient(t_.work.key_end - 1) - first_page_ + 1;
    int32_t* const staged = Memory::pages(memory_);
    for (int i = lane(); i < count; i += kWarpSize)
      staged[i] = a_.keys.page_indices[t_.work.kv_base + first_page_ + i];
  }

  // The item's own keys and values that this part reads.
  __device__ void store_own_keys() {
    for (int i = 0; i < t_.work.queries; ++i) {
      const int32_t key = t_.work.position + i;
      const int64_t token = t_.work.query_row + i;
      const int32_t slot = p_.slots[token];
      if (key < t_.work.key_begin || key >= t_.work.key_end || slot < 0) continue;
      if ((key - t_.work.key_begin) % L::kGroups / kGroups != t_.part) continue;
      const int32_t page = p_.page.quotient(slot), width = p_.heads * p_.head_dim;
      T* const to = reinterpret_cast<T*>(a_.pages) + page * p_.page_stride +
                    (slot - page * p_.block_size) * p_.token_stride + t_.head * p_.head_stride;
      const T* const from =
          static_cast<const T*>(a_.queries) + token * a_.stride + width + t_.head * p_.head_dim;
      for (int d = lane(); d < p_.head_dim; d += kWarpSize) {
        to[d] = from[d];
        to[p_.value_offset + d] = from[width + d];
      }
    }
  }

  // (No branch: the loads of several keys go out together.)
  template <class S>
  __device__ __forceinline__ void load(int32_t key, S& key_slice, S& value_slice) {
    const int32_t index = p_.page.quotient(key), row = key - index * p_.block_size;
    const int64_t page = Memory::pages(memory_)[index - first_page_];
    const T* const at = reinterpret_cast<const T*>(a_.pages) + page * p_.page_stride +
                        row * p_.token_stride + t_.head * p_.head_stride + L::first();
    key_slice.load_lane(at, p_.head_dim);
    value_slice.load_lane(at + p_.value_offset, p_.head_dim);
  }

  template <int kQueries>
  __device__ __forceinline__ void attend(int first_query) {
    using Run = rows::Running<Type, Type, kDim, true, kQueries>;
    constexpr int kDepth = kQueries == 1 ? 2 : 1;
    const AttentionWork& work = t_.work;
    Run running(memory_.queries[first_query][0]);
    const StepBias bias(p_, a_.bias, t_, first_query);
    const int first_key = t_.part * kGroups;
    const int32_t last_of_all = min(work.key_end - 1, work.position);
#pragma unroll 1
    for (int32_t first = work.key_begin; first + first_key < work.key_end;
         first += kStep * kDepth) {
      const int32_t key = first + first_key + lane() / L::kLanes;
      typename Run::KeySlice k[kDepth][rows::kBatch], v[kDepth][rows::kBatch];
      const auto is_empty = [&](int b) {
        return b > 0 && first + b * kStep + first_key >= work.key_end;
      };
#pragma unroll
      for (int b = 0; b < kDepth; ++b) {
        if (is_empty(b)) continue;
#pragma unroll
        for (int j = 0; j < rows::kBatch; ++j)
          load(min(key + b * kStep + j * L::kGroups, work.key_end - 1), k[b][j], v[b][j]);
      }
#pragma unroll
      for (int b = 0; b < kDepth; ++b) {
        if (is_empty(b)) continue;
        const auto value = [&](int j) -> const typename Run::KeySlice& { return v[b][j]; };
        if (first + b * kStep + kStep - 1 <= last_of_all)
          running.template add<false>(k[b], value, key + b * kStep, work, bias);
        else
          running.template add<true>(k[b], value, key + b * kStep, work, bias);
      }
    }
    running.merge_groups();
    if (lane() < L::kLanes) {
#pragma unroll
      for (int i = 0; i < kQueries; ++i) {
        const int query = first_query + i;
        if (query >= work.queries) continue;
        float* const part = part_at(p_, a_.keys, t_, work.chunk, t_.part, query);
#pragma unroll
        for (int n = 0; n < L::kSlice; ++n)
          if (L::element(n) < p_.head_dim) part[L::element(n)] = running.values[i][n];
        if (lane() == 0) {
          part[p_.head_dim] = running.maximum[i];
          part[p_.head_dim + 1] = running.sum[i];
        }
      }
    }
  }

  // Whether all other parts of these queries are written.
  __device__ bool is_last() {
    const int ticket = t_.work.chunks > 1 ? t_.work.ticket : a_.keys.tickets + t_.item;
    int32_t* const at = p_.tickets + int64_t{ticket} * p_.heads + t_.head;
    const int all = t_.work.chunks * kWarps;
    int32_t done = 0;
    __syncwarp();
    if (lane() == 0) {
      __threadfence();
      done = atomicAdd(at, 1);
      __threadfence();
      if (done == all - 1) *at = 0;
    }
    return __shfl_sync(kFullWarp, done, 0) == all - 1;
  }

  // A chunk's parts: what write_rows makes of them.
  struct Chunk {
    float maximum = -INFINITY, sum = 0.0f, value = 0.0f;
  };
  __device__ Chunk chunk_of(int chunk, int query, int d) {
    Chunk out;
    float maxima[kWarps];
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      maxima[w] = __ldcg(part_at(p_, a_.keys, t_, chunk, w, query) + p_.head_dim);
      out.maximum = fmaxf(out.maximum, maxima[w]);
    }
    const float base = scale_base(out.maximum);
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float* const part = part_at(p_, a_.keys, t_, chunk, w, query);
      const float factor = exp2f(maxima[w] - base);
      out.sum = fmaf(__ldcg(part + p_.head_dim + 1), factor, out.sum);
      out.value = fmaf(__ldcg(part + d), factor, out.value);
    }
    return out;
  }

  __device__ void merge() {
    __syncwarp();
    T* const to = static_cast<T*>(p_.attended);
#pragma unroll 1
    for (int i = lane(); i < t_.work.queries * p_.head_dim; i += kWarpSize) {
      const int query = i / p_.head_dim, d = i - query * p_.head_dim;
      Chunk all = chunk_of(0, query, d);
      if (t_.work.chunks > 1) all = merged(query, d);
      to[(int64_t{t_.work.query_row} + query) * p_.heads * p_.head_dim + t_.head * p_.head_dim +
         d] = Type::narrow(all.value * (1.0f / all.sum));
    }
  }

  // Of several chunks, in their order (merge_chunks).
  __device__ Chunk merged(int query, int d) {
    Chunk out;
#pragma unroll 1
    for (int chunk = 0; chunk < t_.work.chunks; ++chunk)
      out.maximum = fmaxf(out.maximum, chunk_of(chunk, query, d).maximum);
    const float base = scale_base(out.maximum);
#pragma unroll 1
    for (int chunk = 0; chunk < t_.work.chunks; ++chunk) {
      const Chunk one = chunk_of(chunk, query, d);
      const float factor = exp2f(one.maximum - base);
      out.sum = fmaf(one.sum, factor, out.sum);
      out.value = fmaf(one.value, factor, out.value);
    }
    return out;
  }

  const Params& p_;
  const Attention& a_;
  const Task& t_;
  Memory& memory_;
  int32_t first_page_ = 0;
};

// The warp's tasks of one layer's attention. Neighbours in their order are of different blocks.
// `memory`: the warp's.
template <class Type, int kDim, int kQueries>
__device__ __forceinline__ void attend(const Params& p, const Attention& a,
                                       TaskMemory<Type, kDim, kQueries>& memory) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int warps = static_cast<int>(gridDim.x) * kWarps, of_item = p.heads * kWarps;
#pragma unroll 1
  for (int t = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x);
       t < a.keys.works * of_item; t += warps) {
    const int item = t / of_item, at = t - item * of_item;
    const Task task{load_work(a.keys.work, item), item, at / kWarps, at % kWarps};
    if (task.work.queries == 0) return;  // (those that fill up are the last)
    TaskRun<Type, kDim, kQueries>(p, a, task, memory).run();
    __syncwarp();
  }
}

}  // namespace tandem::cuda::step
