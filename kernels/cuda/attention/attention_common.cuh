// What both attention kernels share: element types, where keys and values lie, the merging of
// chunks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/launch.cuh"

namespace tandem::cuda {

// --- Element types ------------------------------------------------------------------------------

template <class To, class From>
__device__ To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

struct F32 {
  using Element = float;
  static __device__ float widen(float x) { return x; }
  static __device__ float narrow(float x) { return x; }
  static __device__ void widen_16_bytes(const uint4& bits, float* out) {
    out[0] = __uint_as_float(bits.x);
    out[1] = __uint_as_float(bits.y);
    out[2] = __uint_as_float(bits.z);
    out[3] = __uint_as_float(bits.w);
  }
};

struct BF16 {
  using Element = __nv_bfloat16;
  static __device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
  static __device__ __nv_bfloat16 narrow(float x) { return __float2bfloat16_rn(x); }
  static __device__ void widen_16_bytes(const uint4& bits, float* out) {
    const uint32_t pairs[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[2 * i] = __uint_as_float(pairs[i] << 16);
      out[2 * i + 1] = __uint_as_float(pairs[i] & 0xffff0000u);
    }
  }
  // `low` in the lower half.
  static __device__ uint32_t pack(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return bits_as<uint32_t>(pair);
  }
};

struct F16 {
  using Element = __half;
  static __device__ float widen(__half x) { return __half2float(x); }
  static __device__ __half narrow(float x) { return __float2half_rn(x); }
  static __device__ void widen_16_bytes(const uint4& bits, float* out) {
    const uint32_t pairs[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = __half22float2(bits_as<__half2>(pairs[i]));
      out[2 * i] = pair.x;
      out[2 * i + 1] = pair.y;
    }
  }
  static __device__ uint32_t pack(float low, float high) {
    const __half2 pair = __floats2half2_rn(low, high);
    return bits_as<uint32_t>(pair);
  }
};

// Calls body(F32()), body(BF16()) or body(F16()).
template <class Body>
void for_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32: return body(F32());
    case DType::kBF16: return body(BF16());
    case DType::kF16: return body(F16());
    default: TANDEM_CHECK(false, "attention of this type");
  }
}

// --- Where keys and values lie ------------------------------------------------------------------

// at + a * b: one instruction. (Of 64-bit factors it is several, and a compiler that has widened
// one of them outside of a loop does not find back.)
template <class Byte>
__device__ __forceinline__ Byte* forward(Byte* at, int32_t a, int32_t b) {
#if defined(__CUDA_ARCH__)
  Byte* to;
  asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(to) : "r"(a), "r"(b), "l"(at));
  __builtin_assume(__isGlobal(to));  // else loads ask what memory it is
  return to;
#else
  return at + int64_t{a} * b;
#endif
}

// n / d for 0 <= n < 2^31 and d >= 1, by a multiplication. Without a divisor: 0.
struct Divider {
  uint32_t divisor = 0, multiplier = 0;
  int shift = 0;

  static Divider of(int32_t d) {
    Divider r;
    r.divisor = static_cast<uint32_t>(d);
    int bits = 0;  // ceil(log2(d))
    while ((int64_t{1} << bits) < d) ++bits;
    r.shift = 31 + bits;
    r.multiplier = static_cast<uint32_t>(((uint64_t{1} << r.shift) + r.divisor - 1) / r.divisor);
    return r;
  }
  __host__ __device__ int32_t quotient(int32_t n) const {
    return static_cast<int32_t>((uint64_t{static_cast<uint32_t>(n)} * multiplier) >> shift);
  }
};

// What a kernel is given: the parameters and what the host derives from them.
struct AttentionKernelParams {
  AttentionParams args;
  Divider page;        // of block_size
  Divider group;       // of args.group
  const void* k_base;  // ragged: k and v; pages: the first key and the first value
  const void* v_base;
  int64_t k_row, v_row;  // elements from one token to the next, in a page or in all
  float scale_log2;      // times log2 e
};

constexpr double kLog2e = 1.4426950408889634;

// Blocks of a grid: an item in x, a head of keys and values in z, and in y `parts` of the heads of
// queries that share it: blocks that read the same keys run at about the same time.
inline dim3 attention_grid(const AttentionParams& p, int32_t items, int parts) {
  return {static_cast<unsigned>(items), static_cast<unsigned>(parts),
          static_cast<unsigned>(p.num_heads / p.group)};
}
inline __device__ int kv_head_of_block() { return static_cast<int>(blockIdx.z); }

// What a block of an item has: count() queries, each of a head. Here: all of the item, for one head
// (in y; made of what costs no register).
struct HeadQueries {
  HeadQueries() = default;
  __device__ HeadQueries(const AttentionKernelParams&, int) {}
  __device__ int count(const AttentionWork& work) const { return work.queries; }
  __device__ int query(int i) const { return i; }
  static __device__ int of_block() { return static_cast<int>(blockIdx.z * gridDim.y + blockIdx.y); }
  __device__ int head(int) const { return of_block(); }
  __device__ int ticket() const { return of_block(); }  // of the item's
};

// Here: `most` of the item's queries, each for all heads that share the block's head of keys.
struct GroupQueries {
  int most, first;
  Divider group;
  __device__ GroupQueries(const AttentionKernelParams& p, int most_queries)
      : most(most_queries), first(static_cast<int>(blockIdx.y) * most_queries), group(p.group) {}
  __device__ int count(const AttentionWork& work) const {
    return min(most, work.queries * static_cast<int>(group.divisor) - first);
  }
  __device__ int query(int i) const { return group.quotient(first + i); }
  __device__ int head(int i) const {
    const auto size = static_cast<int>(group.divisor);
    return kv_head_of_block() * size + (first + i - query(i) * size);
  }
  __device__ int ticket() const {
    return kv_head_of_block() * static_cast<int>(group.divisor) + static_cast<int>(blockIdx.y);
  }
};

// The bias of a head for query 0 of an item.
struct BiasRow {
  const float* values;
  int32_t last, shift;  // of the column

  __device__ BiasRow(const AttentionParams& p, const AttentionWork& work, int head)
      : values(p.bias + int64_t{head} * p.bias_columns),
        last(p.bias_columns - 1),
        shift(p.bias_zero - work.query_position) {}
  // `distance`: the key's number less the query's in the item.
  __device__ float at(int32_t distance) const {
    return __ldg(values + max(0, min(distance + shift, last)));
  }
  // To a score, which is one times log2 e.
  __device__ float add(float score, int32_t distance) const {
    return fmaf(at(distance), static_cast<float>(kLog2e), score);
  }
};

inline AttentionKernelParams kernel_params(const AttentionParams& params) {
  TANDEM_CHECK_EQ(reinterpret_cast<uintptr_t>(params.work) % 16, 0u);
  AttentionKernelParams p{params,
                          {},
                          Divider::of(params.group),
                          params.k,
                          params.v,
                          params.k_stride,
                          params.v_stride,
                          static_cast<float>(double{params.scale} * kLog2e)};
  if (params.pages != nullptr) {
    TANDEM_CHECK_GT(params.block_size, 0);
    p.page = Divider::of(params.block_size);
    p.k_base = params.pages;
    const size_t size = params.scales != nullptr ? 1 : size_of(params.dtype);
    p.v_base =
        static_cast<const char*>(params.pages) + params.value_offset * static_cast<int64_t>(size);
    p.k_row = p.v_row = params.token_stride;
  }
  // (Rows' scales are nowhere farther apart than as many f32.)
  const auto element = static_cast<int64_t>(params.scales != nullptr ? 4 : size_of(params.dtype));
  for (const int64_t stride : {p.k_row, p.v_row, params.page_stride})
    TANDEM_CHECK(stride * element == static_cast<int32_t>(stride * element), "keys too far apart");
  return p;
}

// Whether every head's rows of q, k, v and out begin at multiples of 16 bytes (in pages of
// 8 bits: at multiples of as many elements).
inline bool aligned_16(const AttentionParams& p) {
  const int64_t size = static_cast<int64_t>(size_of(p.dtype));
  auto ok = [](int64_t bytes) { return bytes % 16 == 0; };
  auto pointer = [](const void* at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; };
  bool aligned = pointer(p.q) && pointer(p.out) && ok(p.q_stride * size) &&
                 ok(p.out_stride * size) && ok(p.head_dim * size);
  if (p.pages != nullptr) {
    for (int64_t stride : {p.page_stride, p.value_offset, p.head_stride, p.token_stride})
      aligned = aligned && ok(stride * size);
    return aligned && pointer(p.pages);
  }
  return aligned && pointer(p.k) && pointer(p.v) && ok(p.k_stride * size) && ok(p.v_stride * size);
}

// In loads of 16 bytes.
inline __device__ AttentionWork load_work(const AttentionWork* list, int index) {
  static_assert(kAttentionWorkInts % 4 == 0);
  const int4* from = reinterpret_cast<const int4*>(list + index);
  const int4 a = from[0], b = from[1], c = from[2];
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, 0};
}

// --- Chunks of one group of queries -------------------------------------------------------------

// A part of a softmax: the largest score (times log2 e), the sum of 2^(score - it). The sums of
// values are in the same scale. No keys, or scores of -inf only: maximum -inf and sum 0.
inline __device__ float scale_base(float maximum) { return maximum == -INFINITY ? 0.0f : maximum; }

// Where query i's part of a chunk lies: head_dim sums of values, the maximum, the divisor. kWide:
// by 64-bit factors, which take tiles_kernel fewer registers and the others more.
template <bool kWide = false>
__device__ float* partial_at(const AttentionParams& p, const AttentionWork& work, int chunk,
                             int query, int head) {
  if constexpr (kWide) {
    const int64_t slot = work.partial + int64_t{chunk} * work.queries + query;
    return p.partials + (slot * p.num_heads + head) * (p.head_dim + 2);
  }
  const int32_t slot = work.partial + chunk * work.queries + query;
  const int32_t bytes = (p.head_dim + 2) * int32_t{sizeof(float)};
  return reinterpret_cast<float*>(
      forward(reinterpret_cast<char*>(p.partials), slot * p.num_heads + head, bytes));
}

// ops::PagedAttentionArgs::log_sums of a row: `maximum` is times log2 e.
inline __device__ void write_log_sum(const AttentionParams& p, int64_t row, int head, float maximum,
                                     float sum) {
  if (p.log_sums != nullptr)
    p.log_sums[row * p.log_sums_stride + head] =
        fmaf(maximum, static_cast<float>(1 / kLog2e), logf(sum));
}

// Called by all threads of a block that has written its partials; the last block of the queries
// adds up the chunks in their order, writes the rows of `out`, and leaves the ticket at 0.
// kOptions: and the rows of `log_sums`. kWide: as in partial_at().
template <class Type, bool kOptions, bool kWide = false, class Which>
__device__ void merge_chunks(const AttentionParams& p, const AttentionWork& work,
                             const Which& which) {
  __shared__ int32_t done;
  __syncthreads();
  if (threadIdx.x == 0) {
    int32_t* ticket = p.tickets + int64_t{work.ticket} * p.num_heads + which.ticket();
    __threadfence();
    done = atomicAdd(ticket, 1);
    __threadfence();
    if (done == work.chunks - 1) *ticket = 0;
  }
  __syncthreads();
  if (done != work.chunks - 1) return;
  const int elements = which.count(work) * p.head_dim;
  for (int i = static_cast<int>(threadIdx.x); i < elements; i += static_cast<int>(blockDim.x)) {
    const int at = i / p.head_dim, d = i % p.head_dim;
    const int query = which.query(at), head = which.head(at);
    float maximum = -INFINITY;
    for (int chunk = 0; chunk < work.chunks; ++chunk)
      maximum = fmaxf(maximum, partial_at<kWide>(p, work, chunk, query, head)[p.head_dim]);
    const float base = scale_base(maximum);
    float sum = 0.0f, value = 0.0f;
    for (int chunk = 0; chunk < work.chunks; ++chunk) {
      const float* part = partial_at<kWide>(p, work, chunk, query, head);
      const float factor = exp2f(part[p.head_dim] - base);
      sum = fmaf(part[p.head_dim + 1], factor, sum);
      value = fmaf(part[d], factor, value);
    }
    auto* out = static_cast<typename Type::Element*>(p.out) +
                (work.query_row + query) * p.out_stride + int64_t{head} * p.head_dim + d;
    *out = Type::narrow(value * (1.0f / sum));
    if (kOptions && d == 0) write_log_sum(p, work.query_row + query, head, maximum, sum);
  }
}

}  // namespace tandem::cuda
