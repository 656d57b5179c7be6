// Convolutions: checks, dispatch.
#include <algorithm>

#include "kernels/check/check_args.h"
#include "kernels/op_table.h"

namespace tandem::ops {

void conv_windows(Context& ctx, const ConvWindowsArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  TANDEM_CHECK_EQ(args.out.rank(), 2);
  TANDEM_CHECK_EQ(args.start_loc.rank(), 1);
  TANDEM_CHECK_GE(args.width, 1);
  TANDEM_CHECK_GE(args.stride, 1);
  TANDEM_CHECK_GE(args.padding, 0);
  const int64_t sequences = args.start_loc.dim(0) - 1, rows = args.x.dim(0), size = args.x.dim(1);
  TANDEM_CHECK_GE(sequences, 0);
  check_indptr(args.start_loc, sequences, rows);
  check_indptr(args.out_starts, sequences, args.out.dim(0));
  const int64_t dims[] = {rows, size};
  check_shape_and_type(args.x, dims, 2,
                       args.x.dtype() == DType::kF32 ? DType::kF32 : ctx.activations());
  TANDEM_CHECK(args.x.device() == ctx.device() && args.start_loc.device() == ctx.device() &&
                   args.out_starts.device() == ctx.device(),
               "a tensor of another device");
  check_activations(ctx, args.out, args.out.dim(0), size * args.width);
  if (args.out.size() > 0) ops_of(ctx).conv_windows(ctx, args);
}

void picture_conv(Context& ctx, const PictureConvArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  TANDEM_CHECK_GE(std::min(args.height, args.width), 1);
  TANDEM_CHECK(args.size >= 1 && args.size % 2 == 1, "a window without a middle");
  const int64_t rows = args.x.dim(0), size = args.x.dim(1);
  TANDEM_CHECK_EQ(rows % (int64_t{args.height} * args.width), 0);
  check_activations(ctx, args.x, rows, size);
  check_activations(ctx, args.out, rows, size);
  check_matrix_there(ctx, args.weight, int64_t{args.size} * args.size, size);
  TANDEM_CHECK(args.weight.contiguous());
  check_vector(args.bias, size, DType::kF32);
  TANDEM_CHECK(args.bias.device() == ctx.device(), "a tensor of another device");
  if (args.x.size() > 0) ops_of(ctx).picture_conv(ctx, args);
}

void sequence_norm(Context& ctx, const SequenceNormArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  TANDEM_CHECK_EQ(args.start_loc.rank(), 1);
  const int64_t sequences = args.start_loc.dim(0) - 1, rows = args.x.dim(0), size = args.x.dim(1);
  TANDEM_CHECK_GE(sequences, 0);
  check_indptr(args.start_loc, sequences, rows);
  TANDEM_CHECK(args.start_loc.device() == ctx.device(), "a tensor of another device");
  check_activations(ctx, args.x, rows, size);
  check_vector(args.weight, size, DType::kF32);
  check_vector(args.bias, size, DType::kF32);
  check_activations(ctx, args.out, rows, size);
  if (args.x.size() > 0) ops_of(ctx).sequence_norm(ctx, args);
}

void feature_norm(Context& ctx, const FeatureNormArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  TANDEM_CHECK_EQ(args.start_loc.rank(), 1);
  const int64_t sequences = args.start_loc.dim(0) - 1, rows = args.x.dim(0), size = args.x.dim(1);
  TANDEM_CHECK_GE(sequences, 0);
  check_indptr(args.start_loc, sequences, rows);
  TANDEM_CHECK(args.start_loc.device() == ctx.device(), "a tensor of another device");
  check_activations(ctx, args.x, rows, size);
  check_vector(args.weight, size, DType::kF32);
  check_vector(args.bias, size, DType::kF32);
  check_activations(ctx, args.out, rows, size);
  if (args.x.size() > 0) ops_of(ctx).feature_norm(ctx, args);
}

void depthwise_conv(Context& ctx, const DepthwiseConvArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  TANDEM_CHECK_EQ(args.out.rank(), 2);
  TANDEM_CHECK_EQ(args.weight.rank(), 2);
  TANDEM_CHECK_EQ(args.start_loc.rank(), 1);
  for (const int size : {args.x_columns, args.out_columns, args.height, args.width, args.stride})
    TANDEM_CHECK_GE(size, 1);
  TANDEM_CHECK_GE(args.row_padding, 0);
  TANDEM_CHECK_GE(args.column_padding, 0);
  const int64_t sequences = args.start_loc.dim(0) - 1, features = args.weight.dim(1);
  TANDEM_CHECK_GE(sequences, 0);
  check_indptr(args.start_loc, sequences, args.x.dim(0));
  check_indptr(args.out_starts, sequences, args.out.dim(0));
  check_matrix_there(ctx, args.weight, int64_t{args.height} * args.width, features);
  TANDEM_CHECK(args.weight.contiguous());
  check_vector(args.bias, features, DType::kF32);
  const bool single = args.x.dim(1) == args.x_columns;
  const int64_t dims[] = {args.x.dim(0), args.x_columns * (single ? 1 : features)};
  check_shape_and_type(args.x, dims, 2,
                       args.x.dtype() == DType::kF32 ? DType::kF32 : ctx.activations());
  TANDEM_CHECK(args.x.device() == ctx.device() && args.start_loc.device() == ctx.device() &&
                   args.out_starts.device() == ctx.device() && args.bias.device() == ctx.device(),
               "a tensor of another device");
  check_activations(ctx, args.out, args.out.dim(0), args.out_columns * features);
  if (args.out.size() > 0) ops_of(ctx).depthwise_conv(ctx, args);
}

}  // namespace tandem::ops
