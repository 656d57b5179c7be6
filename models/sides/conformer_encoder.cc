#include "models/sides/conformer_encoder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "models/blocks/changed_weights.h"

namespace tandem {
namespace {

constexpr float kBatchEps = 1e-5f;

AttentionOptions attention_options(const ConformerConfig& c) {
  AttentionOptions out = AttentionOptions::scaled(c.heads, c.d_model / c.heads);
  out.bias = c.bias;
  out.names.out = "o_proj";
  return out;
}

Bias bias_of(const ConformerConfig& c) {
  return c.convolution_bias ? Bias::kRequired : Bias::kNone;
}

// A convolution over one row, of file's tensors [out, in, 1].
ConvolutionShape pointwise(int64_t in, int64_t out) { return {in, out}; }

// Half of what it makes.
FeedForward half_of(const Weights& w, const Build& b, const ConformerConfig& c) {
  const Weights last = w / "linear2";
  ChangedWeights changed(w);
  const auto put = [&](const char* name, const HostTensor& t) {
    std::vector<float> values = values_of(t);
    for (float& x : values) x *= 0.5f;
    changed.put(last, name, t.shape, std::move(values));
  };
  put("weight", last.get("weight", {c.d_model, c.ffn_dim}));
  if (c.bias == Bias::kRequired) put("bias", last.get("bias", {c.d_model}));
  return FeedForward(w / "linear1", w / "gate", changed.at(last), b, c.d_model,
                     {.width = c.ffn_dim, .activation = c.activation, .bias = c.bias});
}

}  // namespace

DepthwiseConvolution::DepthwiseConvolution(const Build& b, const Tensor& weight, const Tensor& bias,
                                           int height, int width)
    : build_(b), bias_(b.ctx.resident(bias)), height_(height), width_(width) {
  const int64_t channels = bias.dim(0), values = int64_t{height} * width;
  const Tensor turned({values, channels}, DType::kF32);
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t i = 0; i < values; ++i)
      turned.row<float>(i)[c] = weight.data<float>()[c * values + i];
  weight_ = b.ctx.resident(turned);
}

void DepthwiseConvolution::run(ops::DepthwiseConvArgs args) const {
  args.weight = weight_;
  args.bias = bias_;
  args.height = height_;
  args.width = width_;
  ops::depthwise_conv(build_.ctx, args);
}

ConformerEncoder::Subsampling::Subsampling(const Weights& w, const Build& b,
                                           const ConformerConfig& c)
    : build_(b), config_(c) {
  const int size = c.step.width;
  const int64_t channels = c.channels, columns = c.columns.back();
  for (size_t i = 0, layer = 0; i + 1 < c.columns.size(); ++i, layer += i == 1 ? 2 : 3) {
    const Weights step = w / "layers" / static_cast<int>(layer);
    steps_.emplace_back(b, to_float(step.get("weight", {channels, 1, size, size})),
                        to_float(step.get("bias", {channels})), size, size);
    if (i == 0) continue;
    const Weights mix = w / "layers" / static_cast<int>(layer + 1);
    const HostTensor weight = mix.get("weight", {channels, channels, 1, 1});
    const MatrixView view{weight.data, weight.dtype, channels, channels, channels};
    mixes_.emplace_back(b.ctx, std::span(&view, 1),
                        is_integer_compute(b.dtype) ? DType::kBF16 : b.dtype);
    mix_biases_.push_back(
        b.ctx.resident_bias(to_float(mix.get("bias", {channels})), b.ctx.activations()));
  }
  // The file's features are columns of each channel, these are channels of each column.
  const Weights linear = w / "linear";
  const int64_t in = channels * columns;
  const float scale = c.scaled ? std::sqrt(static_cast<float>(c.d_model)) : 1.0f;
  const std::vector<float> weight = values_of(linear.get("weight", {c.d_model, in}));
  std::vector<float> turned(weight.size()), bias = values_of(linear.get("bias", {c.d_model}));
  for (int64_t row = 0; row < c.d_model; ++row)
    for (int64_t channel = 0; channel < channels; ++channel)
      for (int64_t column = 0; column < columns; ++column)
        turned[static_cast<size_t>(row * in + column * channels + channel)] =
            scale * weight[static_cast<size_t>(row * in + channel * columns + column)];
  for (float& x : bias) x *= scale;
  ChangedWeights changed(w);
  changed.put(linear, "weight", {c.d_model, in}, std::move(turned));
  changed.put(linear, "bias", {c.d_model}, std::move(bias));
  part_ = shard_range(in, b.comm.rank(), b.comm.size());
  linear_.emplace(changed.at(linear), b, in, c.d_model, part_);
}

Tensor ConformerEncoder::Subsampling::forward(const StepTensors& in) const {
  Tensor x = in.encoder_frames, starts = in.frame_start_loc;
  const int64_t channels = config_.channels;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const ConvolvedRows next = convolved_rows(build_.ctx, starts, config_.step);
    const int columns = config_.columns[i + 1];
    Tensor out = build_.ctx.make({next.count, columns * channels});
    steps_[i].run({.x = x,
                   .start_loc = starts,
                   .out_starts = next.starts,
                   .x_columns = config_.columns[i],
                   .out_columns = columns,
                   .stride = config_.step.stride,
                   .row_padding = config_.step.padding,
                   .column_padding = config_.step.padding,
                   .activation = i == 0 ? Activation::kRelu : Activation::kNone,
                   .out = out});
    if (i > 0) {
      const Shape points{next.count * columns, channels};
      const Tensor mixed = build_.ctx.make(points);
      ops::linear(build_.ctx, {&mixes_[i - 1], out.reshape(points), mix_biases_[i - 1],
                               Activation::kRelu, mixed});
      out = mixed.reshape({next.count, columns * channels});
    }
    x = out;
    starts = next.starts;
  }
  return linear_->forward(x.columns(part_.begin, part_.end));
}

ConformerEncoder::Mixing::Mixing(const Weights& w, const Build& b, const ConformerConfig& c)
    : build_(b),
      width_(c.convolution_width),
      activation_(c.activation),
      first_(w / "pointwise_conv1", b, pointwise(c.d_model, c.d_model), 1.0f, bias_of(c)),
      last_(w / "pointwise_conv2", b, pointwise(c.d_model, c.d_model), Activation::kNone,
            bias_of(c)) {
  // With the norm behind it, of stored statistics.
  const Weights depthwise = w / "depthwise_conv", norm = w / "norm";
  norm.find_any("num_batches_tracked");
  const Tensor weight = to_float(depthwise.get("weight", {c.d_model, 1, width_}));
  const Tensor bias = c.convolution_bias ? to_float(depthwise.get("bias", {c.d_model}))
                                         : Tensor({c.d_model}, DType::kF32);
  if (!c.convolution_bias) std::fill_n(bias.data<float>(), c.d_model, 0.0f);
  const auto values = [&](const char* name) { return values_of(norm.get(name, {c.d_model})); };
  const std::vector<float> mean = values("running_mean"), variance = values("running_var"),
                           factor = values("weight"), added = values("bias");
  for (int64_t i = 0; i < c.d_model; ++i) {
    const auto n = static_cast<size_t>(i);
    const double scale = double{factor[n]} / std::sqrt(double{variance[n]} + double{kBatchEps});
    for (int64_t k = 0; k < width_; ++k) {
      float& x = weight.data<float>()[i * width_ + k];
      x = static_cast<float>(double{x} * scale);
    }
    float& x = bias.data<float>()[i];
    x = static_cast<float>((double{x} - double{mean[n]}) * scale + double{added[n]});
  }
  middle_.emplace(b, weight, bias, width_, 1);
}

Tensor ConformerEncoder::Mixing::forward(const Tensor& x, const Tensor& starts) const {
  const Tensor in = first_.forward(x, starts, starts, x.dim(0)),
               out = build_.ctx.make({x.dim(0), x.dim(1)});
  middle_->run({.x = in,
                .start_loc = starts,
                .out_starts = starts,
                .row_padding = (width_ - 1) / 2,
                .activation = activation_,
                .out = out});
  return last_.forward(out, starts, starts, x.dim(0));
}

ConformerEncoder::Layer::Layer(const Weights& w, const Build& b, const ConformerConfig& c)
    : first_norm(w / "norm_feed_forward1", b, c.d_model),
      attention_norm(w / "norm_self_att", b, c.d_model),
      mixing_norm(w / "norm_conv", b, c.d_model),
      last_norm(w / "norm_feed_forward2", b, c.d_model),
      out_norm(w / "norm_out", b, c.d_model),
      first(half_of(w / "feed_forward1", b, c)),
      last(half_of(w / "feed_forward2", b, c)),
      attention(w / "self_attn", b, c.d_model, attention_options(c)),
      mixing(w / "conv", b, c) {}

ConformerEncoder::ConformerEncoder(const Weights& w, const Build& b, const ConformerConfig& c)
    : build_(b),
      subsampling_(w / "subsampling", b, c),
      distances_(b.ctx.resident(Distances::table(c.positions, c.d_model))) {
  layers_.reserve(static_cast<size_t>(c.layers));
  for (int i = 0; i < c.layers; ++i) layers_.emplace_back(w / "layers" / i, b, c);
}

Tensor ConformerEncoder::forward(const StepTensors& in) const {
  const Distances distances = Distances::of(build_.ctx, distances_, in.host->encoder_seq_lens);
  const Tensor& starts = in.encoder_start_loc;
  Tensor x = subsampling_.forward(in);
  for (const Layer& layer : layers_) {
    NormedRows rows(layer.first_norm.forward(x));
    Norm::Sum state = layer.attention_norm.sum_and_norm(x, layer.first.forward_many(rows));
    NormedRows attended(state.normed);
    state = layer.mixing_norm.sum_and_norm(state.sum,
                                           layer.attention.forward(attended, starts, distances));
    state = layer.last_norm.sum_and_norm(state.sum, layer.mixing.forward(state.normed, starts));
    NormedRows more(state.normed);
    x = layer.out_norm.add_norm(state.sum, layer.last.forward_many(more));
  }
  return x;
}

int64_t ConformerConfig::positions_of(int64_t frames) const {
  for (size_t i = 1; i < columns.size(); ++i) frames = Convolution::rows_of(frames, step);
  return frames;
}

int64_t ConformerConfig::scratch_values() const {
  int64_t rows = 1, stem = 0;
  for (size_t i = columns.size(); i-- > 1;) {
    stem += rows * 2 * channels * int64_t{columns[i]};
    rows = rows * step.stride + step.width;
  }
  const int64_t layer = int64_t{ffn_dim} + 14 * int64_t{d_model};
  return std::max(stem + rows * bins, layer);
}

ConformerConfig read_conformer(const ConfigReader& in) {
  constexpr int kWidth = ConfigReader::kMaxWidth, kCount = ConfigReader::kMaxCount;
  ConformerConfig out;
  out.d_model = size_or(in, "hidden_size", kWidth, 1024);
  out.layers = size_or(in, "num_hidden_layers", kCount, 24);
  out.heads = size_or(in, "num_attention_heads", kCount, 8);
  check_heads(in, "num_attention_heads", out);
  if (out.d_model % 2 != 0) in.fail("hidden_size", "is odd: distances are sines and cosines");
  out.ffn_dim = size_or(in, "intermediate_size", kWidth, 4096);
  out.activation = in.activation("hidden_act", "silu");
  out.bias = in.flag("attention_bias", true) ? Bias::kRequired : Bias::kNone;
  out.convolution_bias = in.flag("convolution_bias", true);
  out.scaled = in.flag("scale_input", true);
  out.convolution_width = size_or(in, "conv_kernel_size", 1000, 9);
  if (out.convolution_width % 2 == 0)
    in.fail("conv_kernel_size", "is even: the convolution must keep the length");
  out.bins = size_or(in, "num_mel_bins", kWidth, 80);
  out.channels = size_or(in, "subsampling_conv_channels", kWidth, 256);
  const int size = size_or(in, "subsampling_conv_kernel_size", 100, 3);
  out.step = {0, 0, size, size_or(in, "subsampling_conv_stride", 100, 2), (size - 1) / 2};
  // Longer clips than files speak of: a table has a row for each distance.
  out.positions =
      std::min(size_or(in, "max_position_embeddings", ConfigReader::kMaxRows, 5000), 10'000);
  const int factor = size_or(in, "subsampling_factor", 4096, 8);
  int64_t columns = out.bins, whole = out.bins;
  out.columns.push_back(out.bins);
  for (int power = 2; power <= factor; power *= 2) {
    columns = Convolution::rows_of(columns, out.step);
    whole /= out.step.stride;
    out.columns.push_back(static_cast<int>(columns));
  }
  if (out.columns.size() < 2) in.fail("subsampling_factor", "is below 2");
  if (columns < 1 || columns != whole)
    in.fail("num_mel_bins", "leaves " + std::to_string(columns) +
                                " columns behind the convolutions, HuggingFace expects " +
                                std::to_string(whole));
  return out;
}

}  // namespace tandem
