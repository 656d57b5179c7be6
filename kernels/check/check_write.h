// The check of what is written to pages, by write_kv or in front of attention.
#pragma once

#include "kernels/check/check_args.h"
#include "kernels/kv_pages.h"

namespace tandem {

inline void check_write(const Context& ctx, const ops::WriteKvArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  TANDEM_CHECK_EQ(args.k.rank(), 2);
  const int64_t rows = args.k.dim(0);
  check_activations(ctx, args.k, rows, s.num_heads * s.head_dim);
  check_activations(ctx, args.v, rows, s.num_heads * s.head_dim);
  check_page_type(ctx, args.pages);
  check_vector(args.slot_mapping, rows, DType::kI32);
  check_range(args.slot_mapping, INT32_MIN, s.num_blocks * s.block_size);
  check_rotary(ctx, args.rotary, rows, s.head_dim);
}

}  // namespace tandem
