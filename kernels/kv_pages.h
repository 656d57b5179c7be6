// Where things lie in KvPages.
#pragma once

#include <cstdint>

#include "kernels/core/check.h"
#include "kernels/ops.h"

namespace tandem {

// Strides in elements; K of a block first, V after it.
struct KvStrides {
  int64_t num_blocks, block_size, num_heads, head_dim;
  int64_t block, kv, head, token;
};

inline KvStrides kv_strides(const KvPages& pages) {
  const Tensor& t = pages.data;
  TANDEM_CHECK_EQ(t.rank(), 5);
  TANDEM_CHECK_EQ(t.dim(1), 2);
  TANDEM_CHECK(t.contiguous());
  TANDEM_CHECK(t.dtype() == DType::kF32 || t.dtype() == DType::kBF16 || t.dtype() == DType::kF16);
  const bool nhd = pages.layout == KvLayout::kNHD;
  KvStrides s{};
  s.num_blocks = t.dim(0);
  s.block_size = t.dim(nhd ? 2 : 3);
  s.num_heads = t.dim(nhd ? 3 : 2);
  s.head_dim = t.dim(4);
  s.kv = s.block_size * s.num_heads * s.head_dim;
  s.block = 2 * s.kv;
  s.head = nhd ? s.head_dim : s.block_size * s.head_dim;
  s.token = nhd ? s.num_heads * s.head_dim : s.head_dim;
  return s;
}

}  // namespace tandem
