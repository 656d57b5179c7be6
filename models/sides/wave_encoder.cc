#include "models/sides/wave_encoder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "kernels/sound_ops.h"
#include "models/blocks/changed_weights.h"

namespace tandem {
namespace {

// The weight of a convolution in groups: v times g / |v|, of each place in the window. [out, in of
// a group, width]
std::vector<float> normed_weight(const Weights& w, int64_t out, int64_t in, int64_t width) {
  const Weights made = w / "parametrizations" / "weight";  // of newer torch
  const Shape of_g{1, 1, width}, of_v{out, in, width};
  const auto old_g = w.find("weight_g", of_g);
  const std::vector<float> g = values_of(old_g ? *old_g : made.get("original0", of_g));
  std::vector<float> v = values_of(old_g ? w.get("weight_v", of_v) : made.get("original1", of_v));
  for (size_t k = 0; k < g.size(); ++k) {
    double squares = 0;
    for (size_t i = k; i < v.size(); i += g.size()) squares += double{v[i]} * double{v[i]};
    const double factor = double{g[k]} / std::sqrt(squares);
    for (size_t i = k; i < v.size(); i += g.size())
      v[i] = static_cast<float>(double{v[i]} * factor);
  }
  return v;
}

AttentionOptions attention_options(const WaveEncoderConfig& c) {
  return AttentionOptions::scaled(c.heads, c.d_model / c.heads);
}

}  // namespace

WaveEncoder::Places::Places(const Weights& w, const Build& b, const WaveEncoderConfig& c)
    : build_(b),
      features_(c.d_model / c.position_groups),
      width_(c.position_width),
      activation_(c.step_activation) {
  const std::vector<float> weight = normed_weight(w, c.d_model, features_, width_);
  const Tensor bias = to_float(w.get("bias", {c.d_model}));
  const int64_t columns = features_ * width_;
  const DType dtype = is_integer_compute(b.dtype) ? DType::kBF16 : b.dtype;
  for (int64_t group = 0; group < c.position_groups; ++group) {
    const MatrixView view{weight.data() + group * features_ * columns, DType::kF32, features_,
                          columns, columns};
    weights_.emplace_back(b.ctx, std::span(&view, 1), dtype);
    const Tensor own({features_}, DType::kF32);
    std::copy_n(bias.data<float>() + group * features_, features_, own.data<float>());
    biases_.push_back(b.ctx.resident_bias(own, b.ctx.activations()));
  }
}

Tensor WaveEncoder::Places::forward(const Tensor& x, const Tensor& starts) const {
  const Tensor out = build_.ctx.make({x.dim(0), x.dim(1)}),
               windows = build_.ctx.make({x.dim(0), features_ * width_});
  for (size_t group = 0; group < weights_.size(); ++group) {
    const int64_t begin = static_cast<int64_t>(group) * features_, end = begin + features_;
    ops::conv_windows(build_.ctx,
                      {x.columns(begin, end), starts, starts, width_, 1, width_ / 2, windows});
    ops::linear(build_.ctx,
                {&weights_[group], windows, biases_[group], activation_, out.columns(begin, end)});
  }
  return out;
}

WaveEncoder::Projection WaveEncoder::projection_of(const Weights& w, const Build& b, int64_t in,
                                                   int64_t out) {
  const Range part = shard_range(in, b.comm.rank(), b.comm.size());
  return {part, RowParallelLinear(w, b, in, out, part)};
}

WaveEncoder::WaveEncoder(const Weights& w, const Build& b, const WaveEncoderConfig& c)
    : build_(b),
      config_(c),
      heads_(b, c.heads, c.d_model / c.heads),
      projection_norm_(w / "feature_projection" / "layer_norm", b, c.steps.back().out, c.eps),
      projection_(
          projection_of(w / "feature_projection" / "projection", b, c.steps.back().out, c.d_model)),
      places_(w / "encoder" / "pos_conv_embed" / "conv", b, c),
      norm_(w / "encoder" / "layer_norm", b, c.d_model, c.eps) {
  w.find_any("masked_spec_embed");  // of training
  const Weights steps = w / "feature_extractor" / "conv_layers";
  for (size_t i = 0; i < c.steps.size(); ++i) {
    const Weights step = steps / static_cast<int>(i);
    const bool plain = !c.step_norms && i > 0;
    steps_.push_back({Convolution(step / "conv", b, c.steps[i],
                                  plain ? c.step_activation : Activation::kNone, c.step_bias),
                      {}});
    if (c.step_norms) steps_.back().norm.emplace(step / "layer_norm", b, c.steps[i].out);
  }
  if (!c.step_norms) {
    const Weights norm = steps / 0 / "layer_norm";
    const auto values = [&](const char* name) {
      return b.ctx.resident(to_float(norm.get(name, {c.steps[0].out})));
    };
    first_norm_ = FeatureNorm{values("weight"), values("bias")};
  }
  const Weights layers = w / "encoder" / "layers";
  for (int i = 0; i < c.layers; ++i) {
    const Weights layer = layers / i, forward = layer / "feed_forward";
    layers_.push_back(
        {ClipAttention(layer / "attention", b, c.d_model, attention_options(c)),
         Norm(layer / "layer_norm", b, c.d_model, c.eps),
         FeedForward(forward / "intermediate_dense", forward / "gate", forward / "output_dense", b,
                     c.d_model, {c.ffn_dim, c.activation}),
         Norm(layer / "final_layer_norm", b, c.d_model, c.eps)});
  }
  if (c.adapters == 0) return;
  const Weights adapter = w / "adapter";
  if (c.width != c.d_model) {
    adapter_.projection.emplace(projection_of(adapter / "proj", b, c.d_model, c.width));
    adapter_.norm.emplace(adapter / "proj_layer_norm", b, c.width);
  }
  for (int i = 0; i < c.adapters; ++i)
    adapter_.steps.emplace_back(adapter / "layers" / i / "conv", b, c.adapter);
}

// Frames of samples, of the last step's features.
WaveEncoder::Rows WaveEncoder::convolved(const StepTensors& in) const {
  Rows rows{in.encoder_frames, in.frame_start_loc};
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const Convolution::Rows next = step.convolution.rows_behind(rows.starts);
    rows = {step.convolution.forward(rows.x, rows.starts, next.starts, next.count), next.starts};
    if (step.norm) rows.x = step.norm->forward(rows.x);
    if (i == 0 && first_norm_)
      ops::feature_norm(
          build_.ctx, {rows.x, rows.starts, first_norm_->weight, first_norm_->bias, 1e-5f, rows.x});
    if (step.norm || (i == 0 && first_norm_))
      ops::apply_activation(build_.ctx, {rows.x, config_.step_activation});
  }
  return rows;
}

Tensor WaveEncoder::post_normed(const Tensor& x, const Tensor& places,
                                const OwnSequences& clips) const {
  Tensor state = norm_.add_norm(x, places);
  for (const Layer& layer : layers_) {
    NormedRows rows(state);
    state = layer.attention_norm.add_norm(state, layer.attention.forward(rows, clips));
    NormedRows more(state);
    state = layer.final_norm.add_norm(state, layer.feed_forward.forward_many(more));
  }
  return state;
}

Tensor WaveEncoder::pre_normed(const Tensor& x, const Tensor& places,
                               const OwnSequences& clips) const {
  Tensor sum = x, update = places;
  for (const Layer& layer : layers_) {
    const Norm::Sum before = layer.attention_norm.sum_and_norm(sum, update);
    NormedRows rows(before.normed);
    const Norm::Sum between =
        layer.final_norm.sum_and_norm(before.sum, layer.attention.forward(rows, clips));
    NormedRows more(between.normed);
    sum = between.sum;
    update = layer.feed_forward.forward_many(more);
  }
  return norm_.add_norm(sum, update);
}

Tensor WaveEncoder::adapted(Rows rows, const StepTensors& in) const {
  if (adapter_.projection) rows.x = adapter_.norm->forward(adapter_.projection->forward(rows.x));
  for (size_t i = 0; i + 1 < adapter_.steps.size(); ++i) {
    const Convolution::Rows next = adapter_.steps[i].rows_behind(rows.starts);
    rows = {adapter_.steps[i].forward(rows.x, rows.starts, next.starts, next.count), next.starts};
  }
  return adapter_.steps.back().forward(rows.x, rows.starts, in.encoder_start_loc,
                                       in.encoder_positions.dim(0));
}

Tensor WaveEncoder::forward(const StepTensors& in) const {
  Rows rows = convolved(in);
  rows.x = projection_.forward(projection_norm_.forward(rows.x));
  const Tensor places = places_.forward(rows.x, rows.starts);
  const OwnSequences clips =
      own_sequences(build_.ctx, rows.starts, heads_.count(), heads_.head_dim);
  rows.x =
      config_.pre_norm ? pre_normed(rows.x, places, clips) : post_normed(rows.x, places, clips);
  return config_.adapters > 0 ? adapted(std::move(rows), in) : rows.x;
}

}  // namespace tandem
