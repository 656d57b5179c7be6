// Packing of masks: checks, dispatch.
#include "kernels/layouts/layout_checks.h"
#include "kernels/op_table.h"

namespace tandem::ops {

void pack_bits(Context& ctx, const PackBitsArgs& args) {
  layouts::check_data(ctx, "x", args.x, {-1}, {DType::kU8});
  layouts::check_dense("x", args.x);
  int64_t bytes = (args.x.dim(0) + 7) / 8;
  if (args.indptr.rank() > 0) {
    layouts::check_offsets("indptr", args.indptr);
    layouts::check_end("indptr", args.indptr, args.x.dim(0), "x");
    const Tensor packed = packed_indptr_of(args.indptr);
    bytes = packed.data<int32_t>()[packed.dim(0) - 1];
  }
  layouts::check_data(ctx, "packed", args.packed, {bytes}, {DType::kU8});
  layouts::check_dense("packed", args.packed);
  if (bytes > 0) ops_of(ctx).pack_bits(ctx, args);
}

}  // namespace tandem::ops
