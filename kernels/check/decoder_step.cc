// A decoder's layers at once: checks, dispatch.
#include "kernels/check/check_args.h"
#include "kernels/decoder_ops.h"
#include "kernels/kv_pages.h"
#include "kernels/op_table.h"

namespace tandem::ops {
namespace {

void check_norm(const StepNorm& norm, int64_t size) {
  check_vector(norm.weight, size, DType::kF32);
  if (norm.rms)
    TANDEM_CHECK(norm.bias.empty());
  else
    check_vector(norm.bias, size, DType::kF32);
}

void check_product(const Context& ctx, const StepProduct& product, int64_t in, int64_t out) {
  TANDEM_CHECK_EQ(product.weight.in_features(), in);
  TANDEM_CHECK_EQ(product.weight.out_features(), out);
  if (!product.bias.empty())
    check_vector(product.bias, out, ctx.on_cpu() ? DType::kF32 : ctx.activations());
}

void check_layer(const Context& ctx, const DecoderStepArgs& args, const DecoderLayerParts& layer) {
  const DecoderShape& shape = args.shape;
  const int64_t d = args.x.dim(1), width = int64_t{shape.num_heads} * shape.head_dim;
  for (const StepNorm* norm : {&layer.self_norm, &layer.cross_norm, &layer.final_norm})
    check_norm(*norm, d);
  check_product(ctx, layer.qkv, d, 3 * width);
  check_product(ctx, layer.self_out, width, d);
  check_product(ctx, layer.cross_q, d, width);
  check_product(ctx, layer.cross_out, width, d);
  const int64_t inner = layer.second.weight.in_features();
  check_product(ctx, layer.first, d, shape.gated ? 2 * inner : inner);
  check_product(ctx, layer.second, inner, d);
  check_bias(ctx, layer.bias, shape.num_heads);
}

void check_keys(const Context& ctx, const StepKeys& keys) {
  TANDEM_CHECK_EQ(keys.plan != nullptr, !ctx.on_cpu());
  TANDEM_CHECK_EQ(keys.page_indices.rank(), 1);
}

}  // namespace

void decoder_step(Context& ctx, const DecoderStepArgs& args) {
  TANDEM_CHECK_EQ(args.x.rank(), 2);
  const int64_t rows = args.x.dim(0), d = args.x.dim(1);
  check_activations(ctx, args.x, rows, d);
  check_activations(ctx, args.out, rows, d);
  TANDEM_CHECK(args.out.raw() != args.x.raw(), "the result over the input");
  if (!args.update.empty()) check_activations(ctx, args.update, rows, d);
  TANDEM_CHECK(args.update.empty() || !args.shape.norms_behind, "an addition before a first layer");
  TANDEM_CHECK_EQ(args.last_norm.has_value(), !args.shape.norms_behind);
  if (args.last_norm) check_norm(*args.last_norm, d);
  TANDEM_CHECK(args.shape.num_heads >= 1 && args.shape.head_dim >= 1);
  TANDEM_CHECK(!args.layers.empty());
  TANDEM_CHECK_EQ(args.layers.size(), args.pages.size());
  for (const DecoderLayerParts& layer : args.layers) check_layer(ctx, args, layer);
  for (const KvPages& pages : args.pages) {
    const KvStrides s = kv_strides(pages);
    check_page_type(ctx, pages);
    TANDEM_CHECK_EQ(s.num_heads, int64_t{args.shape.num_heads});
    TANDEM_CHECK_EQ(s.head_dim, int64_t{args.shape.head_dim});
  }
  check_vector(args.slot_mapping, rows, DType::kI32);
  check_keys(ctx, args.self);
  check_keys(ctx, args.cross);
  if (rows > 0) ops_of(ctx).decoder_step(ctx, args);
}

}  // namespace tandem::ops
