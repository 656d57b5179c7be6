// One form for the attention of all layouts, of checked arguments: what implementations read.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/layouts/layout_ops.h"

namespace tandem {

// Keys or values: element d of a token's head lies at data + page * index of the page + token *
// place in it + head * number of the head + d. Strides in elements.
struct KeySide {
  const void* data = nullptr;
  int64_t page = 0, token = 0, head = 0;
  int dim = 0;

  // The same from element `at` on, of that many bytes each.
  KeySide from(int64_t at, size_t bytes) const {
    KeySide side = *this;
    side.data = static_cast<const std::byte*>(data) + static_cast<size_t>(at) * bytes;
    return side;
  }
};

struct StridedAttention {
  struct Part {
    Tensor q;  // [n, num_heads, dim]
    KeySide k;
  };
  Part parts[2];  // whose products are added
  int num_parts = 1;
  KeySide v;
  DType type = DType::kF32;  // of keys and values
  int num_heads = 0, kv_heads = 0;
  int64_t requests = 0;
  const int32_t *qo = nullptr, *kv = nullptr;                // [requests + 1]
  const int32_t *pages = nullptr, *last_page_len = nullptr;  // null: kv counts tokens
  int64_t page_size = 1;
  ScoreRules scores;
  Tensor out, lse;

  int64_t queries(int64_t s) const { return int64_t{qo[s + 1]} - qo[s]; }
  int64_t keys(int64_t s) const {
    const int64_t count = int64_t{kv[s + 1]} - kv[s];
    return pages == nullptr || count == 0 ? count : (count - 1) * page_size + last_page_len[s];
  }
  // Where a request's elements of mask and bias begin; with its end.
  std::vector<int64_t> first_elements() const;
  // Where its bytes of the packed mask begin.
  std::vector<int64_t> first_bytes() const;
  int64_t elements() const;  // of mask and bias
};

// Strides of keys and values of a cache, and how many tokens a page has. `layout` is of 5 or 4
// dimensions.
struct CacheSides {
  KeySide k, v;
  int64_t pages = 0, page_size = 1;
  int kv_heads = 1;
  DType type = DType::kF32;
};
CacheSides sides_of(const PagedKvCache& cache);
// k: the compressed part, v: that with positions.
CacheSides sides_of(const MlaCache& cache, int64_t head_dim_ckv);

StridedAttention strided(const ops::AttendRaggedArgs& args);
StridedAttention strided(const ops::AttendPagesArgs& args);
StridedAttention strided(const ops::AttendLatentArgs& args);

}  // namespace tandem
