// Token and position embeddings: checks, dispatch.
#include "kernels/check_args.h"
#include "kernels/op_table.h"

namespace tandem::ops {

void embedding(Context& ctx, const EmbeddingArgs& args) {
  TANDEM_CHECK_EQ(args.ids.rank(), 1);
  const int64_t rows = args.ids.dim(0);
  TANDEM_CHECK_EQ(args.tokens.rank(), 2);
  const int64_t size = args.tokens.dim(1);
  check_vector(args.ids, rows, DType::kI32);
  check_table_type(args.tokens);
  check_activations(ctx, args.out, rows, size);
  if (!args.positions.empty()) {
    TANDEM_CHECK_EQ(args.positions.rank(), 2);
    TANDEM_CHECK_EQ(args.positions.dim(1), size);
    check_table_type(args.positions);
    check_vector(args.position_ids, rows, DType::kI32);
    check_range(args.position_ids, -int64_t{args.position_offset},
                args.positions.dim(0) - args.position_offset);
  }
  if (!args.norm_weight.empty()) {
    TANDEM_CHECK_GE(size, 1);
    check_vector(args.norm_weight, size, DType::kF32);
    check_vector(args.norm_bias, size, DType::kF32);
  }
  if (rows > 0) ops_of(ctx).embedding(ctx, args);
}

}  // namespace tandem::ops
