// Embeddings, normalisation, gates, rows by index: checks, dispatch.
#include "kernels/check/check_args.h"
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

void layer_norm(Context& ctx, const LayerNormArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  const int64_t rows = args.x.dim(0), size = args.x.dim(1);
  TANDEM_CHECK_GE(size, 1);
  check_activations(ctx, args.x, rows, size);
  if (!args.residual.empty()) check_activations(ctx, args.residual, rows, size);
  check_vector(args.weight, size, DType::kF32);
  if (args.rms)
    TANDEM_CHECK(args.bias.empty());
  else
    check_vector(args.bias, size, DType::kF32);
  check_activations(ctx, args.out, rows, size);
  if (!args.sum.empty()) check_activations(ctx, args.sum, rows, size);
  if (rows > 0) ops_of(ctx).layer_norm(ctx, args);
}

void gated_activation(Context& ctx, const GatedActivationArgs& args) {
  TANDEM_CHECK_EQ(args.gate.rank(), 2);
  const int64_t rows = args.gate.dim(0), size = args.gate.dim(1);
  for (const Tensor* t : {&args.gate, &args.up, &args.out}) check_activations(ctx, *t, rows, size);
  if (rows > 0 && size > 0) ops_of(ctx).gated_activation(ctx, args);
}

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
