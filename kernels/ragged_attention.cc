// Encoder attention: checks, dispatch.
#include "kernels/check_args.h"
#include "kernels/op_table.h"

namespace tandem::ops {

void ragged_attention(Context& ctx, const RaggedAttentionArgs& args) {
  TANDEM_CHECK_GE(args.num_heads, 0);
  TANDEM_CHECK_GE(args.head_dim, 1);
  TANDEM_CHECK_EQ(args.q.rank(), 2);
  const int64_t rows = args.q.dim(0), size = int64_t{args.num_heads} * args.head_dim;
  check_activations(ctx, args.q, rows, size);
  check_activations(ctx, args.k, rows, size);
  check_activations(ctx, args.v, rows, size);
  check_activations(ctx, args.out, rows, size);
  check_bias(ctx, args.bias, args.num_heads);
  if (args.plan == nullptr) {
    TANDEM_CHECK_EQ(args.indptr.rank(), 1);
    TANDEM_CHECK_GE(args.indptr.dim(0), 1);
    check_indptr(args.indptr, args.indptr.dim(0) - 1, rows);
  }
  TANDEM_CHECK_EQ(args.plan != nullptr, !ctx.on_cpu());
  if (rows > 0 && size > 0) ops_of(ctx).ragged_attention(ctx, args);
}

}  // namespace tandem::ops
