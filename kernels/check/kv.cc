// Keys and values to their pages: checks, dispatch.
#include "kernels/check_args.h"
#include "kernels/kv_pages.h"
#include "kernels/op_table.h"

namespace tandem::ops {

void write_kv(Context& ctx, const WriteKvArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  TANDEM_CHECK_EQ(args.k.rank(), 2);
  const int64_t rows = args.k.dim(0);
  check_activations(ctx, args.k, rows, s.num_heads * s.head_dim);
  check_activations(ctx, args.v, rows, s.num_heads * s.head_dim);
  check_page_type(ctx, args.pages);
  check_vector(args.slot_mapping, rows, DType::kI32);
  check_range(args.slot_mapping, INT32_MIN, s.num_blocks * s.block_size);
  if (rows > 0) ops_of(ctx).write_kv(ctx, args);
}

}  // namespace tandem::ops
