// Rows by index: checks, dispatch.
#include "kernels/check_args.h"
#include "kernels/op_table.h"

namespace tandem::ops {

void gather_rows(Context& ctx, const GatherRowsArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  TANDEM_CHECK_EQ(args.rows.rank(), 1);
  const int64_t rows = args.rows.dim(0);
  const int64_t columns = args.x.dim(1), from[] = {args.x.dim(0), columns}, to[] = {rows, columns};
  const DType dtype = args.x.dtype() == DType::kF32 ? DType::kF32 : ctx.activations();
  check_shape_and_type(args.x, from, 2, dtype);
  check_vector(args.rows, rows, DType::kI32);
  check_range(args.rows, 0, args.x.dim(0));
  check_shape_and_type(args.out, to, 2, dtype);
  TANDEM_CHECK(args.x.device() == ctx.device() && args.out.device() == ctx.device(),
               "a tensor of another device");
  if (rows > 0) ops_of(ctx).gather_rows(ctx, args);
}

}  // namespace tandem::ops
