// Linear layers: packing, checks, dispatch.
#include <string>
#include <utility>

#include "base/error.h"
#include "kernels/check/check_args.h"
#include "kernels/check/check_chosen.h"
#include "kernels/op_table.h"

namespace tandem {

PackedWeight::PackedWeight(Context& ctx, std::span<const MatrixView> parts, DType dtype,
                           Quantization quantization)
    : dtype_(dtype), quantization_(ctx.on_cpu() ? Quantization::kNone : quantization) {
  TANDEM_CHECK(!parts.empty());
  if (ctx.on_cpu()) {
    TANDEM_CHECK(dtype == DType::kF32 || dtype == DType::kBF16 || is_integer_compute(dtype));
  } else {
    TANDEM_CHECK(dtype == ctx.activations());
  }
  k_ = parts[0].columns;
  if (is_integer_compute(dtype) && k_ > kMaxI8Features)
    throw not_supported(
        "dtype", std::string(name_of(dtype)) + " sums hold " + std::to_string(kMaxI8Features) +
                     " input features of a linear layer, it has " + std::to_string(k_));
  for (const MatrixView& part : parts) {
    TANDEM_CHECK_EQ(part.columns, k_);
    TANDEM_CHECK_GE(part.rows, 0);
    TANDEM_CHECK(part.data != nullptr || part.rows * part.columns == 0);
    TANDEM_CHECK(part.dtype == DType::kF32 || part.dtype == DType::kF16 ||
                 part.dtype == DType::kBF16);
    n_ += part.rows;
  }
  if (quantization_ == Quantization::kNone) {
    data_ = ops_of(ctx).pack_weight(ctx, parts, dtype);
  } else {
    QuantizedWeight quantized = ops_of(ctx).quantize_weight(ctx, parts, quantization_);
    data_ = std::move(quantized.data);
    scales_ = std::move(quantized.scales);
  }
}

namespace ops {
namespace {

void check_norm(const Context& ctx, const LinearArgs& args) {
  const LayerNormArgs& norm = *args.norm;
  TANDEM_CHECK(norm.out.raw() == args.x.raw(), "a norm of other rows");
  TANDEM_CHECK_EQ(norm.groups, 1);
  check_layer_norm(ctx, norm);
  if (ctx.on_cpu()) return;
  for (const Tensor* from : {&norm.x, &norm.residual})
    TANDEM_CHECK(
        from->raw() != norm.out.raw() && (norm.sum.empty() || from->raw() != norm.sum.raw()),
        "a norm over its own input");
}

}  // namespace

void linear(Context& ctx, const LinearArgs& args) {
  TANDEM_CHECK(args.weight != nullptr);
  const PackedWeight& w = *args.weight;
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  const int64_t rows = args.x.dim(0);
  check_activations(ctx, args.x, rows, w.in_features());
  if (args.out.dtype() == DType::kF32) {
    check_matrix(args.out, rows, w.out_features());
  } else {
    check_activations(ctx, args.out, rows, w.out_features());
  }
  if (!args.bias.empty())
    check_vector(args.bias, w.out_features(), ctx.on_cpu() ? DType::kF32 : args.out.dtype());
  if (rows == 0) return;
  if (args.norm != nullptr) check_norm(ctx, args);
  if (w.out_features() > 0) {
    ops_of(ctx).linear(ctx, args);
  } else if (args.norm != nullptr) {
    layer_norm(ctx, *args.norm);
  }
}

void linear_best(Context& ctx, const LinearBestArgs& args) {
  TANDEM_CHECK(args.weight != nullptr);
  const PackedWeight& w = *args.weight;
  TANDEM_CHECK(w.quantization() == Quantization::kNone);
  TANDEM_CHECK_GT(w.out_features(), 0);
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  TANDEM_CHECK_EQ(args.rows.rank(), 1);
  const int64_t rows = args.rows.dim(0);
  check_activations(ctx, args.x, args.x.dim(0), w.in_features());
  check_vector(args.rows, rows, DType::kI32);
  check_range(args.rows, 0, args.x.dim(0));
  if (!ctx.on_cpu()) TANDEM_CHECK_LE(rows, int64_t{ctx.backend().most_best_rows(w)});
  if (!args.bias.empty()) check_vector(args.bias, w.out_features(), DType::kF32);
  check_vector(args.log_sums, rows, DType::kF32);
  check_chosen(args.ids, args.values, args.best, rows, 1);
  TANDEM_CHECK_GE(args.soft_cap, 0.0f);
  if (rows > 0) ops_of(ctx).linear_best(ctx, args);
}

void join_best(Context& ctx, const JoinBestArgs& args) {
  TANDEM_CHECK_EQ(args.part_ids.rank(), 2);
  const int64_t parts = args.part_ids.dim(0), rows = args.part_ids.dim(1);
  TANDEM_CHECK_GT(parts, 0);
  const int64_t all[] = {parts, rows};
  check_shape_and_type(args.part_ids, all, 2, DType::kI32);
  TANDEM_CHECK(args.part_ids.device() == ctx.device(), "a tensor of another device");
  check_matrix_there(ctx, args.part_values, parts, rows);
  check_matrix_there(ctx, args.part_log_sums, parts, rows);
  check_vector(args.log_sums, rows, DType::kF32);
  check_chosen(args.ids, args.values, args.best, rows, 1);
  if (rows > 0) ops_of(ctx).join_best(ctx, args);
}

}  // namespace ops
}  // namespace tandem
