// Keys and values of new tokens on their way to the pages: write_kv's, or attention's own.
#pragma once

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/page_types.cuh"
#include "kernels/cuda/rotary.cuh"
#include "kernels/kv_pages.h"

namespace tandem::cuda {

struct NewKeys {
  // [tokens, heads * head_dim] of the activations' type; null: there are none.
  const void *k = nullptr, *v = nullptr;
  int64_t k_stride = 0, v_stride = 0;
  const int32_t* slots = nullptr;
  void* pages = nullptr;
  void* scales = nullptr;         // of pages in 8 bits, else null
  DType page_type = DType::kF32;  // of `pages`
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
  out.page_type = args.pages.data.dtype();
  if (page_scale_type(out.page_type)) out.scales = args.pages.scales.raw();
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

// A key or a value of a head to element `at` of pages in 8 bits, by a warp; element(d): what it is
// made of. Twice: what the scale depends on, then the bytes.
template <class Stored, class Element>
__device__ __forceinline__ void store_in_8_bits(const NewKeys& p, int64_t at,
                                                const Element& element) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  float largest = 0.0f;
  for (int d = lane; d < p.head_dim; d += kWarpSize)
    largest = fmaxf(largest, Stored::magnitude(element(d)));
  const typename Stored::Rounding rounded(warp_max(largest));
  if (lane == 0) static_cast<typename Stored::Scale*>(p.scales)[at / p.head_dim] = rounded.scale;
  for (int d = lane; d < p.head_dim; d += kWarpSize)
    static_cast<typename Stored::Element*>(p.pages)[at + d] = rounded(element(d));
}

// The key (`value`: the value) of a token's head to pages in 8 bits, by a warp.
template <class T, class Stored>
__device__ __forceinline__ void store_head_in_8_bits(const NewKeys& p, int64_t token, int head,
                                                     bool value, int64_t place) {
  const T* from = static_cast<const T*>(value ? p.v : p.k) +
                  token * (value ? p.v_stride : p.k_stride) + int64_t{head} * p.head_dim;
  const int64_t at = place + (value ? p.value_offset : 0) + head * p.head_stride;
  if (!value && p.turn.angles != nullptr) {
    store_in_8_bits<Stored>(p, at, [&](int d) { return p.turn.element(from, token, d); });
  } else {
    store_in_8_bits<Stored>(p, at, [&](int d) { return to_float(from[d]); });
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
