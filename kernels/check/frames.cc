// Frames and activations: checks, dispatch.
#include "kernels/check/check_args.h"
#include "kernels/op_table.h"

namespace tandem::ops {

void apply_activation(Context& ctx, const ApplyActivationArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  check_activations(ctx, args.x, args.x.dim(0), args.x.dim(1));
  if (args.x.size() > 0) ops_of(ctx).apply_activation(ctx, args);
}

void compress_frames(Context& ctx, const CompressFramesArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  check_matrix_there(ctx, args.x, args.x.dim(0), args.x.dim(1));
  check_activations(ctx, args.out, args.x.dim(0), args.x.dim(1));
  if (args.x.size() > 0) ops_of(ctx).compress_frames(ctx, args);
}

}  // namespace tandem::ops
