// Log-sum, processors and the best of each row: checks, dispatch.
#include "kernels/check_args.h"
#include "kernels/op_table.h"

namespace tandem::ops {
namespace {

// On the host only: what a device is given was checked by whoever made it.
void check_edits(const SelectArgs& args, int64_t rows, int64_t size) {
  check_indptr(args.edit_indptr, rows, args.edited.dim(0));
  if (args.edits.empty() || args.edits.device() != Device::kCpu) return;
  for (int64_t i = 0; i < args.edits.dim(0); ++i) {
    const int32_t* edit = args.edits.row<int32_t>(i);
    TANDEM_CHECK_GE(edit[0], 0);
    TANDEM_CHECK_LT(int64_t{edit[0]}, size);
    TANDEM_CHECK_GE(edit[1], 0);
    TANDEM_CHECK_LE(edit[1], static_cast<int32_t>(LogitEdit::kFavour));
  }
}

}  // namespace

void select(Context& ctx, const SelectArgs& args) {
  TANDEM_CHECK_EQ(args.logits.rank(), 2);
  const int64_t rows = args.logits.dim(0), size = args.logits.dim(1);
  check_matrix(args.logits, rows, size);
  TANDEM_CHECK_GE(args.k, 1);
  TANDEM_CHECK_LE(args.k, kMaxSelect);
  TANDEM_CHECK_LE(int64_t{args.k}, size);
  check_vector(args.flags, rows, DType::kI32);
  TANDEM_CHECK_EQ(args.edited.rank(), 1);
  const int64_t edits[] = {args.edited.dim(0), 3}, best[] = {rows, args.k};
  check_shape_and_type(args.edits, edits, 2, DType::kI32);
  check_vector(args.edited, edits[0], DType::kF32);
  check_edits(args, rows, size);
  check_vector(args.log_sums, rows, DType::kF32);
  check_shape_and_type(args.ids, best, 2, DType::kI32);
  check_shape_and_type(args.values, best, 2, DType::kF32);
  if (rows > 0) ops_of(ctx).select(ctx, args);
}

}  // namespace tandem::ops
