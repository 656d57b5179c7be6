// Argmax of rows: checks, dispatch.
#include "kernels/check_args.h"
#include "kernels/op_table.h"

namespace tandem::ops {

void argmax(Context& ctx, const ArgmaxArgs& args) {
  TANDEM_CHECK_EQ(args.logits.rank(), 2);
  const int64_t rows = args.logits.dim(0);
  check_matrix(args.logits, rows, args.logits.dim(1));
  check_vector(args.ids, rows, DType::kI32);
  if (rows == 0) return;
  TANDEM_CHECK_GE(args.logits.dim(1), 1);
  ops_of(ctx).argmax(ctx, args);
}

}  // namespace tandem::ops
