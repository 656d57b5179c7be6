// Layer normalisation: checks, dispatch.
#include "kernels/check_args.h"
#include "kernels/op_table.h"

namespace tandem::ops {

void layer_norm(Context& ctx, const LayerNormArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  const int64_t rows = args.x.dim(0), size = args.x.dim(1);
  TANDEM_CHECK_GE(size, 1);
  check_activations(ctx, args.x, rows, size);
  if (!args.residual.empty()) check_activations(ctx, args.residual, rows, size);
  check_vector(args.weight, size, DType::kF32);
  check_vector(args.bias, size, DType::kF32);
  check_activations(ctx, args.out, rows, size);
  if (!args.sum.empty()) check_activations(ctx, args.sum, rows, size);
  if (rows > 0) ops_of(ctx).layer_norm(ctx, args);
}

}  // namespace tandem::ops
