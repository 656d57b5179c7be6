// Rows by index: checks, dispatch.
#include "kernels/check_args.h"
#include "kernels/op_table.h"

namespace tandem::ops {

void gather_rows(Context& ctx, const GatherRowsArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  TANDEM_CHECK_EQ(args.rows.rank(), 1);
  const int64_t rows = args.rows.dim(0);
  check_activations(ctx, args.x, args.x.dim(0), args.x.dim(1));
  check_vector(args.rows, rows, DType::kI32);
  check_range(args.rows, 0, args.x.dim(0));
  check_activations(ctx, args.out, rows, args.x.dim(1));
  if (rows > 0) ops_of(ctx).gather_rows(ctx, args);
}

}  // namespace tandem::ops
