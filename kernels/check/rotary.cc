// Rotary positions: checks, dispatch.
#include "kernels/check/check_args.h"
#include "kernels/op_table.h"

namespace tandem::ops {

void rotary_angles(Context& ctx, const RotaryAnglesArgs& args) {
  TANDEM_CHECK_EQ(args.positions.rank(), 1);
  TANDEM_CHECK_EQ(args.frequencies.rank(), 1);
  const int64_t rows = args.positions.dim(0), pairs = args.frequencies.dim(0);
  check_vector(args.positions, rows, DType::kI32);
  check_vector(args.frequencies, pairs, DType::kF32);
  check_matrix_there(ctx, args.out, rows, 2 * pairs);
  TANDEM_CHECK(args.frequencies.device() == ctx.device(), "a tensor of another device");
  if (rows > 0 && pairs > 0) ops_of(ctx).rotary_angles(ctx, args);
}

void rotary(Context& ctx, const RotaryArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  TANDEM_CHECK_GE(args.num_heads, 0);
  TANDEM_CHECK_GE(args.head_dim, 1);
  const int64_t rows = args.x.dim(0), size = int64_t{args.num_heads} * args.head_dim;
  check_activations(ctx, args.x, rows, size);
  check_rotary(ctx, args.rotary, rows, args.head_dim);
  if (rows > 0 && size > 0 && !args.rotary.angles.empty()) ops_of(ctx).rotary(ctx, args);
}

}  // namespace tandem::ops
