// Embeddings, normalisation, gates, rows by index, soft caps: checks, dispatch.
#include "kernels/check/check_args.h"
#include "kernels/op_table.h"

namespace tandem {

void check_layer_norm(const Context& ctx, const ops::LayerNormArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  TANDEM_CHECK_GE(args.groups, 1);
  const int64_t rows = args.x.dim(0), columns = args.x.dim(1), size = columns / args.groups;
  TANDEM_CHECK_GE(size, 1);
  TANDEM_CHECK_EQ(size * args.groups, columns);
  TANDEM_CHECK(args.groups == 1 || (args.residual.empty() && args.sum.empty()),
               "groups with a residual or a sum");
  check_activations(ctx, args.x, rows, columns);
  if (!args.residual.empty()) check_activations(ctx, args.residual, rows, size);
  check_vector(args.weight, size, DType::kF32);
  if (args.rms)
    TANDEM_CHECK(args.bias.empty());
  else
    check_vector(args.bias, size, DType::kF32);
  check_activations(ctx, args.out, rows, columns);
  if (!args.sum.empty()) check_activations(ctx, args.sum, rows, size);
}

namespace ops {
namespace {

// Of a copy of rows by index: `listed` has a row for each of `rows`, which counts those of `all`.
void check_listed_rows(const Context& ctx, const Tensor& listed, const Tensor& rows,
                       const Tensor& all) {
  TANDEM_CHECK_EQ(listed.rank(), 2);
  TANDEM_CHECK_EQ(all.rank(), 2);
  TANDEM_CHECK_EQ(rows.rank(), 1);
  const DType dtype = all.dtype() == DType::kF32 ? DType::kF32 : ctx.activations();
  const int64_t there[] = {all.dim(0), all.dim(1)}, here[] = {rows.dim(0), all.dim(1)};
  check_shape_and_type(all, there, 2, dtype);
  check_shape_and_type(listed, here, 2, dtype);
  check_vector(rows, rows.dim(0), DType::kI32);
  check_range(rows, 0, all.dim(0));
  TANDEM_CHECK(all.device() == ctx.device() && listed.device() == ctx.device(),
               "a tensor of another device");
}

}  // namespace

void embedding(Context& ctx, const EmbeddingArgs& args) {
  const bool whole_numbers = args.ids.dtype() == DType::kF32;
  TANDEM_CHECK_EQ(args.ids.rank(), whole_numbers ? 2 : 1);
  const int64_t rows = args.ids.dim(0);
  TANDEM_CHECK_EQ(args.tokens.rank(), 2);
  const int64_t size = args.tokens.dim(1);
  if (whole_numbers)
    check_matrix_there(ctx, args.ids, rows, 1);
  else
    check_vector(args.ids, rows, DType::kI32);
  if (args.tokens.dtype() != ctx.activations()) check_table_type(args.tokens);
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
  check_layer_norm(ctx, args);
  if (args.x.dim(0) > 0) ops_of(ctx).layer_norm(ctx, args);
}

void gated_activation(Context& ctx, const GatedActivationArgs& args) {
  TANDEM_CHECK_EQ(args.gate.rank(), 2);
  const int64_t rows = args.gate.dim(0), size = args.gate.dim(1);
  for (const Tensor* t : {&args.gate, &args.up, &args.out}) check_activations(ctx, *t, rows, size);
  if (rows > 0 && size > 0) ops_of(ctx).gated_activation(ctx, args);
}

void add_rows(Context& ctx, const AddRowsArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  for (const Tensor* t : {&args.x, &args.y, &args.out})
    check_activations(ctx, *t, args.x.dim(0), args.x.dim(1));
  if (args.x.size() > 0) ops_of(ctx).add_rows(ctx, args);
}

void gather_rows(Context& ctx, const GatherRowsArgs& args) {
  check_listed_rows(ctx, args.out, args.rows, args.x);
  if (args.rows.dim(0) > 0) ops_of(ctx).gather_rows(ctx, args);
}

void scatter_rows(Context& ctx, const ScatterRowsArgs& args) {
  check_listed_rows(ctx, args.x, args.rows, args.out);
  if (args.rows.dim(0) > 0) ops_of(ctx).scatter_rows(ctx, args);
}

void combine_rows(Context& ctx, const CombineRowsArgs& args) {
  TANDEM_CHECK_EQ(args.places.rank(), 2);
  TANDEM_CHECK_EQ(args.out.rank(), 2);
  const int64_t tokens = args.places.dim(0), each = args.places.dim(1), size = args.out.dim(1);
  const int64_t dims[] = {tokens, each}, rows = args.x.empty() ? 0 : args.x.dim(0);
  check_shape_and_type(args.places, dims, 2, DType::kI32);
  check_matrix_there(ctx, args.factors, tokens, each);
  TANDEM_CHECK(args.places.contiguous() && args.factors.contiguous());
  check_activations(ctx, args.out, tokens, size);
  if (rows > 0) check_activations(ctx, args.x, rows, size);
  check_range(args.places, -1, rows);
  if (tokens > 0 && size > 0) ops_of(ctx).combine_rows(ctx, args);
}

void sum_ranges(Context& ctx, const SumRangesArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  TANDEM_CHECK_EQ(args.ranges.rank(), 2);
  const int64_t count = args.ranges.dim(0);
  check_activations(ctx, args.x, args.x.dim(0), args.x.dim(1));
  if (args.out.dtype() == DType::kF32)
    check_matrix_there(ctx, args.out, count, args.x.dim(1));
  else
    check_activations(ctx, args.out, count, args.x.dim(1));
  check_ranges(ctx, args.ranges, count, args.x.dim(0), /*least=*/1);
  if (count > 0) ops_of(ctx).sum_ranges(ctx, args);
}

void soft_cap(Context& ctx, const SoftCapArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  check_matrix_there(ctx, args.x, args.x.dim(0), args.x.dim(1));
  TANDEM_CHECK(args.cap > 0, "a cap that is not positive");
  if (args.x.size() > 0) ops_of(ctx).soft_cap(ctx, args);
}

}  // namespace ops
}  // namespace tandem
