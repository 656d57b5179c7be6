// Where things lie in KvPages.
#pragma once

#include <cstdint>
#include <optional>

#include "base/check.h"
#include "kernels/ops.h"

namespace tandem {

// Strides in elements; K of a block first, V after it. Divided by head_dim they are the scales'
// strides.
struct KvStrides {
  int64_t num_blocks, block_size, num_heads, head_dim;
  int64_t block, kv, head, token;
};

inline KvStrides kv_strides(const KvPages& pages) {
  const Tensor& t = pages.data;
  TANDEM_CHECK_EQ(t.rank(), 5);
  TANDEM_CHECK_EQ(t.dim(1), 2);
  TANDEM_CHECK(t.contiguous());
  const std::optional<DType> scales = page_scale_type(t.dtype());
  TANDEM_CHECK(scales || t.dtype() == DType::kF32 || t.dtype() == DType::kBF16 ||
               t.dtype() == DType::kF16);
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
  if (scales) {
    TANDEM_CHECK(pages.scales.dtype() == *scales && pages.scales.contiguous());
    TANDEM_CHECK_EQ(pages.scales.size() * s.head_dim, t.size());
    TANDEM_CHECK_EQ(pages.scales.dim(0), s.num_blocks);
  }
  return s;
}

// On the CPU f32, bf16 or i8; on CUDA the activations' type, i8 or f8.
inline void check_page_type(const Context& ctx, const KvPages& pages) {
  const DType type = pages.data.dtype();
  if (ctx.on_cpu()) {
    TANDEM_CHECK(type == DType::kF32 || type == DType::kBF16 || type == DType::kI8,
                 "pages of this type on the CPU");
  } else {
    TANDEM_CHECK(type == ctx.activations() || page_scale_type(type), "pages of another type");
  }
}

}  // namespace tandem
