#include "models/blocks/decoder_parts.h"

namespace tandem {
namespace {

ops::StepKeys keys_of(const StepTensors::Pages& pages, const Tensor& starts,
                      const ops::DeviceAttentionPlan* plan) {
  return {starts, pages.indptr, pages.page_indices, pages.last_page_len, plan};
}

}  // namespace

std::optional<DecoderParts> DecoderParts::of(const std::vector<DecoderLayer>& layers,
                                             const std::optional<Norm>& last) {
  DecoderParts out;
  for (const DecoderLayer& layer : layers) {
    ops::DecoderShape shape;
    if (!layer.describe(out.layers_.emplace_back(), shape)) return std::nullopt;
    if (out.layers_.size() > 1 && shape != out.shape_) return std::nullopt;
    out.shape_ = shape;
  }
  if (layers.empty() || (!out.shape_.norms_behind && !last)) return std::nullopt;
  if (last) out.last_.emplace(*last);
  return out;
}

Tensor DecoderParts::decode(Context& ctx, const Residual& state, const StepTensors& in,
                            const KvCache& cache) const {
  if (ctx.on_cpu() || in.cross_weights != nullptr || state.norm != nullptr) return {};
  ops::DecoderStepArgs args;
  args.shape = shape_;
  args.layers = layers_;
  args.pages = cache.layers;
  args.x = state.sum;
  args.update = state.update;
  if (!shape_.norms_behind) args.last_norm = step_norm(*last_);
  args.slot_mapping = in.slot_mapping;
  args.self = keys_of(in.self_pages, in.query_start_loc, in.self_plan());
  args.cross = keys_of(in.cross_pages, in.cross_query_start_loc, in.cross_plan());
  if (!ops::takes_decoder_step(ctx, args)) return {};
  args.out = ctx.make({state.sum.dim(0), state.sum.dim(1)});
  ops::decoder_step(ctx, args);
  return shape_.norms_behind && last_ ? last_->forward(args.out) : args.out;
}

}  // namespace tandem
