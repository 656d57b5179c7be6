// Keys and values of new tokens on their way to the pages: write_kv's, or attention's own.
#pragma once

#include <cuda_fp8.h>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/rotary.cuh"
#include "kernels/kv_pages.h"

namespace tandem::cuda {

struct NewKeys {
  // [tokens, heads * head_dim] of the activations' type; null: there are none.
  const void *k = nullptr, *v = nullptr;
  int64_t k_stride = 0, v_stride = 0;
  const int32_t* slots = nullptr;
  void* pages = nullptr;
  uint8_t* scales = nullptr;  // of f8 pages, else null
  // Of the pages, in elements (kernels/kv_pages.h).
  int64_t page_stride = 0, value_offset = 0, head_stride = 0, token_stride = 0;
  int32_t block_size = 0, head_dim = 0, heads = 0;
  Turn turn;  // of keys; no angles: they stay

  // Where the key of head 0 goes.
  __device__ int64_t place(int32_t slot) const {
    return slot / block_size * page_stride + slot % block_size * token_stride;
  }
};

inline NewKeys new_keys(const ops::WriteKvArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  NewKeys out;
  out.k = args.k.raw();
  out.v = args.v.raw();
  out.k_stride = args.k.row_stride();
  out.v_stride = args.v.row_stride();
  out.slots = args.slot_mapping.data<int32_t>();
  out.pages = args.pages.data.raw();
  if (args.pages.data.dtype() == DType::kF8E4M3) out.scales = args.pages.scales.data<uint8_t>();
  out.page_stride = s.block;
  out.value_offset = s.kv;
  out.head_stride = s.head;
  out.token_stride = s.token;
  out.block_size = static_cast<int32_t>(s.block_size);
  out.head_dim = static_cast<int32_t>(s.head_dim);
  out.heads = static_cast<int32_t>(s.num_heads);
  if (!args.rotary.angles.empty()) out.turn = Turn(args.rotary);
  return out;
}

// A key or a value of a head to element `at` of f8 pages, by a warp; element(d): what it is made
// of. Twice: the size of the largest finite element, then the bytes.
template <class Element>
__device__ __forceinline__ void store_f8(const NewKeys& p, int64_t at, const Element& element) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  float largest = 0.0f;
  for (int d = lane; d < p.head_dim; d += kWarpSize) {
    const float size = fabsf(element(d));
    if (size < INFINITY) largest = fmaxf(largest, size);
  }
  largest = warp_max(largest);
  // The least power of two 2^(exponent - 127) of which 448 (1.75 times 2^8) is as large.
  const uint32_t bits = __float_as_uint(largest);
  const int exponent =
      max(1, static_cast<int>(bits >> 23) - 8 + ((bits & 0x7fffffu) > 0x600000u ? 1 : 0));
  const float inverse = __uint_as_float(static_cast<uint32_t>(254 - exponent) << 23);
  if (lane == 0) p.scales[at / p.head_dim] = static_cast<uint8_t>(exponent);
  for (int d = lane; d < p.head_dim; d += kWarpSize)
    static_cast<uint8_t*>(p.pages)[at + d] =
        __nv_cvt_float_to_fp8(element(d) * inverse, __NV_SATFINITE, __NV_E4M3);
}

// The key (`value`: the value) of a token's head to f8 pages, by a warp.
template <class T>
__device__ __forceinline__ void store_head_f8(const NewKeys& p, int64_t token, int head, bool value,
                                              int64_t place) {
  const T* from = static_cast<const T*>(value ? p.v : p.k) +
                  token * (value ? p.v_stride : p.k_stride) + int64_t{head} * p.head_dim;
  const int64_t at = place + (value ? p.value_offset : 0) + head * p.head_stride;
  if (!value && p.turn.angles != nullptr) {
    store_f8(p, at, [&](int d) { return p.turn.element(from, token, d); });
  } else {
    store_f8(p, at, [&](int d) { return to_float(from[d]); });
  }
}

// Element `i` of a token's keys, which may turn, and of its values.
template <class T>
__device__ __forceinline__ void store_element(const NewKeys& p, int64_t token, int i,
                                              int64_t place) {
  const int d = i % p.head_dim;
  const T* key = static_cast<const T*>(p.k) + token * p.k_stride + i;
  T* to = static_cast<T*>(p.pages) + place + i / p.head_dim * p.head_stride + d;
  *to = p.turn.angles == nullptr ? *key : from_float<T>(p.turn.element(key - d, token, d));
  to[p.value_offset] = static_cast<const T*>(p.v)[token * p.v_stride + i];
}

}  // namespace tandem::cuda
