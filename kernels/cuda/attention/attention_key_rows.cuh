// Where attention of few queries finds its keys and values, and brings its own.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/attention_common.cuh"
#include "kernels/cuda/attention/attention_lanes.cuh"

namespace tandem::cuda::rows {

// Where the keys and values of an item and a head are, for one lane.
template <class Stored>
struct KeyRows {
  using Element = typename Stored::Element;
  const char* k;
  const char* v;
  int32_t k_row, v_row, page_bytes;  // from one to the next
  Divider page;
  const int32_t* pages;  // of the chunk, in shared memory; ragged: one page 0 of everything
  int32_t first_page, block_size;
  // Of pages in 8 bits: the scales of this head's keys, beside each other as pages and rows are.
  // Values and their scales are so far behind (and pointers to them would take registers).
  const char* k_scales = nullptr;
  int32_t scale_row = 0, scale_page = 0, value_scales = 0;

  // Fills `staged` with the chunk's page numbers; the caller synchronises. first_element: of a
  // head, the lane's.
  __device__ KeyRows(const AttentionKernelParams& p, const AttentionWork& work, int head,
                     int first_element, int32_t* staged)
      : k_row(bytes_of(p.k_row)),
        v_row(bytes_of(p.v_row)),
        page_bytes(bytes_of(p.args.page_stride)),
        page(p.page),
        pages(staged) {
    const bool paged = p.args.pages != nullptr;
    const int64_t at = paged ? head * p.args.head_stride : int64_t{head} * p.args.head_dim;
    k = reinterpret_cast<const char*>(static_cast<const Element*>(p.k_base) + at + first_element);
    v = reinterpret_cast<const char*>(static_cast<const Element*>(p.v_base) + at + first_element);
    block_size = p.args.block_size;
    first_page = page.quotient(work.key_begin);
    if (paged) {
      const int32_t count = page.quotient(work.key_end - 1) - first_page + 1;
      for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads)
        staged[i] = p.args.page_indices[work.kv_base + first_page + i];
    } else {
      if (threadIdx.x == 0) staged[0] = 0;
      k = forward(k, work.kv_base, k_row);
      v = forward(v, work.kv_base, v_row);
    }
    if constexpr (kIn8Bits<Stored>) {
      using Scale = typename Stored::Scale;
      const int size = p.args.head_dim;
      const Scale* const first = static_cast<const Scale*>(p.args.scales) + at / size;
      k_scales = reinterpret_cast<const char*>(first);
      value_scales = static_cast<int32_t>(p.args.value_offset / size * int{sizeof(Scale)});
      scale_row = static_cast<int32_t>(p.k_row / size * int{sizeof(Scale)});
      scale_page = static_cast<int32_t>(p.args.page_stride / size * int{sizeof(Scale)});
    }
  }

  template <class S>
  __device__ void load(int32_t key, const AttentionParams& p, S& key_slice, S& value_slice) const {
    // No branch: the loads of several keys go out together.
    const int32_t index = page.quotient(key), row = key - index * block_size;
    const int32_t number = pages[index - first_page];
    const auto place = [&](const char* at, int32_t row_bytes) {
      return forward(forward(at, number, page_bytes), row, row_bytes);
    };
    const auto load_lane = [&](const char* at, S& slice) {
      slice.load_lane(reinterpret_cast<const Element*>(at), p.head_dim);
    };
    const char* const key_at = place(k, k_row);
    load_lane(key_at, key_slice);
    if constexpr (kIn8Bits<Stored>) {
      load_lane(forward(key_at, static_cast<int32_t>(p.value_offset), 1), value_slice);
      using Scale = typename Stored::Scale;
      const char* const at = forward(forward(k_scales, number, scale_page), row, scale_row);
      key_slice.scale = *reinterpret_cast<const Scale*>(at);
      value_slice.scale = *reinterpret_cast<const Scale*>(forward(at, value_scales, 1));
    } else {
      load_lane(place(v, v_row), value_slice);
    }
  }

 private:
  // (kernel_params says that it fits.)
  static __device__ int32_t bytes_of(int64_t elements) {
    return static_cast<int32_t>(elements * static_cast<int64_t>(sizeof(Element)));
  }
};

// The item's own keys and values of a head, as far as they are of its chunk, to their pages. (Heads
// of queries that share one of keys do so each, with the same bytes.) Read by this block alone in
// this launch; the caller synchronises.
template <class Type, class Stored>
__device__ __forceinline__ void store_own_keys(const NewKeys& p, const AttentionWork& work) {
  using T = typename Type::Element;
  const int head = kv_head_of_block(), thread = made_anew(static_cast<int>(threadIdx.x));
  for (int i = 0; i < work.queries; ++i) {
    const int32_t key = work.position + i;
    const int64_t token = work.query_row + i;
    const int32_t slot = p.slots[token];
    if (key < work.key_begin || key >= work.key_end || slot < 0) continue;
    if constexpr (kIn8Bits<Stored>) {
      const int warp = thread / kWarpSize;
      if (warp < 2) store_head_in_8_bits<T, Stored>(p, token, head, warp == 1, p.place(slot));
    } else {
      for (int d = thread; d < p.head_dim; d += kThreads)
        store_element<T>(p, token, head * p.head_dim + d, p.place(slot));
    }
  }
}

}  // namespace tandem::cuda::rows
