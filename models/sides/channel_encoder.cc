#include "models/sides/channel_encoder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "models/blocks/split_weights.h"

namespace tandem {
namespace {

using nlohmann::json;

constexpr int kConvSize = 3;  // of the convolutions within layers

std::vector<int> read_numbers(const ConfigReader& in, const char* key, std::vector<int> otherwise,
                              int least, int most) {
  const json* value = in.find(key);
  if (value == nullptr) return otherwise;
  const auto valid = [&](const json& n) {
    return n.is_number_integer() && n >= least && n <= most;
  };
  if (!value->is_array() || value->empty() || !std::all_of(value->begin(), value->end(), valid))
    in.fail(key, "is " + in.show(*value) + ", expected a list of numbers, one for each stage");
  return value->get<std::vector<int>>();
}

std::vector<bool> read_flags(const ConfigReader& in, const char* key, std::vector<bool> otherwise) {
  const json* value = in.find(key);
  if (value == nullptr) return otherwise;
  const auto valid = [](const json& n) { return n.is_boolean(); };
  if (!value->is_array() || !std::all_of(value->begin(), value->end(), valid))
    in.fail(key, "is " + in.show(*value) + ", expected true or false for each stage");
  return value->get<std::vector<bool>>();
}

void check_stage(const ConfigReader& in, const ChannelEncoderConfig::Stage& s, int window) {
  const ConvSteps& c = s.steps;
  if (c.height + 2 * c.padding < c.size || c.width + 2 * c.padding < c.size ||
      s.points() > ConfigReader::kMaxRows)
    in.fail("patch_size", "does not fit a picture of " + std::to_string(c.width) + " x " +
                              std::to_string(c.height) + " points");
  for (const auto& [key, parts] :
       {std::pair("num_heads", s.heads), std::pair("num_groups", s.groups)})
    if (s.d_model % parts != 0)
      in.fail(key, "has " + std::to_string(parts) + ", which does not divide embed_dim (" +
                       std::to_string(s.d_model) + ")");
  if (s.d_model / s.groups > ops::ChannelAttentionArgs::kMostWidth)
    in.fail("num_groups", "makes groups of more than " +
                              std::to_string(ops::ChannelAttentionArgs::kMostWidth) + " features");
  if (window > PictureWindows::kMostWindow)
    in.fail("window_size", "is above " + std::to_string(PictureWindows::kMostWindow));
}

AttentionOptions attention_options(int heads, int head_dim, float scale, bool qkv_bias) {
  AttentionOptions out = AttentionOptions::scaled(heads, head_dim);
  out.scale = scale;
  // The last one always has one.
  out.bias = qkv_bias ? Bias::kRequired : Bias::kOptional;
  out.names = {"q", "k", "v", "proj"};
  return out;
}

}  // namespace

int64_t ChannelEncoderConfig::scratch_values() const {
  int64_t most = int64_t{height} * width * ImagePatches::kChannels;
  int64_t before = ImagePatches::kChannels;
  for (const Stage& s : stages) {
    const int64_t windows = before * s.steps.size * s.steps.size;
    most = std::max(most,
                    s.points() * (std::max(int64_t{s.ffn_dim}, windows) + 8 * int64_t{s.d_model}));
    before = s.d_model;
  }
  return (most - 1) / stages.back().points() + 1;
}

ChannelEncoderConfig read_channel_encoder(const ConfigReader& in, int height, int width) {
  constexpr int kWidth = ConfigReader::kMaxWidth, kCount = ConfigReader::kMaxCount;
  const auto numbers = [&](const char* key, std::vector<int> otherwise, int least, int most) {
    return read_numbers(in, key, std::move(otherwise), least, most);
  };
  const std::vector<int> widths = numbers("embed_dim", {128, 256, 512, 1024}, 1, kWidth),
                         depths = numbers("depths", {1, 1, 9, 1}, 1, kCount),
                         heads = numbers("num_heads", {4, 8, 16, 32}, 1, kCount),
                         groups = numbers("num_groups", {4, 8, 16, 32}, 1, kCount),
                         sizes = numbers("patch_size", {7, 3, 3, 3}, 1, 64),
                         strides = numbers("patch_stride", {4, 2, 2, 2}, 1, 64),
                         paddings = numbers("patch_padding", {3, 1, 1, 1}, 0, 64);
  const std::vector<bool> norms = read_flags(in, "patch_prenorm", {false, true, true, true});
  const size_t count = widths.size();
  for (const auto& [key, size] :
       {std::pair("depths", depths.size()), std::pair("num_heads", heads.size()),
        std::pair("num_groups", groups.size()), std::pair("patch_size", sizes.size()),
        std::pair("patch_stride", strides.size()), std::pair("patch_padding", paddings.size()),
        std::pair("patch_prenorm", norms.size())})
    if (size != count)
      in.fail(key,
              "has " + std::to_string(size) + " stages, embed_dim has " + std::to_string(count));
  ChannelEncoderConfig out;
  out.height = height;
  out.width = width;
  out.window = size_or(in, "window_size", kCount, 12);
  out.activation = in.activation("activation_function", "gelu");
  out.qkv_bias = in.flag("qkv_bias", true);
  const double ratio = double{in.positive("mlp_ratio", 4.0f)};
  ConvSteps steps{height, width};
  for (size_t i = 0; i < count; ++i) {
    steps.size = sizes[i];
    steps.stride = strides[i];
    steps.padding = paddings[i];
    const double ffn = ratio * widths[i];
    if (ffn < 1 || ffn > kWidth) in.fail("mlp_ratio", "makes layers too large or too small");
    const ChannelEncoderConfig::Stage stage{
        steps, widths[i], depths[i], heads[i], groups[i], static_cast<int>(ffn), norms[i]};
    check_stage(in, stage, out.window);
    out.stages.push_back(stage);
    steps.height = stage.steps.rows();
    steps.width = stage.steps.columns();
  }
  return out;
}

template <class Attention>
Tensor ChannelEncoder::Layer<Attention>::forward(Context& ctx, Tensor x,
                                                 const StepTensors& in) const {
  const auto add = [&](const Tensor& more) { ops::add_rows(ctx, {x, more, x}); };
  add(conv1.forward(x));
  NormedRows normed(norm1.forward(x));
  add(attention.forward(normed, in));
  add(conv2.forward(x));
  NormedRows rows(norm2.forward(x));
  add(feed_forward.forward_many(rows));
  return x;
}

ChannelEncoder::Block ChannelEncoder::make_block(const Weights& w, const Build& b,
                                                 const ChannelEncoderConfig& c,
                                                 const ChannelEncoderConfig::Stage& s) {
  const int height = s.steps.rows(), width = s.steps.columns();
  const auto conv = [&](const Weights& layer, const char* name) {
    return PictureConv(layer / name, b, s.d_model, kConvSize, height, width);
  };
  const auto feed_forward = [&](const Weights& layer) {
    return FeedForward(layer / "ffn" / "fc1", layer / "ffn" / "gate", layer / "ffn" / "fc2", b,
                       s.d_model, {s.ffn_dim, c.activation});
  };
  const auto norm = [&](const Weights& layer, const char* name) {
    return Norm(layer / name, b, s.d_model);
  };
  const Weights points = w / "spatial_block", channels = w / "channel_block";
  const int head_dim = s.d_model / s.heads, width_of_group = s.d_model / s.groups;
  const auto root_of = [](int64_t n) { return 1.0f / std::sqrt(static_cast<float>(n)); };
  PictureAttention of_points(points / "window_attn", b, s.d_model,
                             attention_options(s.heads, head_dim, root_of(head_dim), c.qkv_bias),
                             {{height, width, c.window}, nullptr});
  ChannelAttention of_channels(
      channels / "channel_attn", b, s.d_model,
      attention_options(s.groups, width_of_group, root_of(s.points()), c.qkv_bias), s.points());
  return {{conv(points, "conv1"), norm(points, "norm1"), std::move(of_points),
           conv(points, "conv2"), norm(points, "norm2"), feed_forward(points)},
          {conv(channels, "conv1"), norm(channels, "norm1"), std::move(of_channels),
           conv(channels, "conv2"), norm(channels, "norm2"), feed_forward(channels)}};
}

ChannelEncoder::ChannelEncoder(const Weights& w, const Build& b, const ChannelEncoderConfig& c)
    : build_(b) {
  SplitWeights source(w.source());
  const Weights split(source, w.scope());
  int64_t before = ImagePatches::kChannels;
  for (size_t i = 0; i < c.stages.size(); ++i) {
    const ChannelEncoderConfig::Stage& s = c.stages[i];
    const Weights conv = split / "convs" / static_cast<int>(i);
    Stage made{s.norm_first,
               Norm(conv / "norm", b, s.norm_first ? before : s.d_model),
               StridedConv(conv / "conv", b, before, s.d_model, s.steps),
               {}};
    for (int layer = 0; layer < s.layers; ++layer)
      made.blocks.push_back(make_block(split / "blocks" / static_cast<int>(i) / layer, b, c, s));
    stages_.push_back(std::move(made));
    before = s.d_model;
  }
}

Tensor ChannelEncoder::forward(const Tensor& pixels, const StepTensors& in) const {
  Tensor x = pixels;
  for (const Stage& stage : stages_) {
    x = stage.norm_first ? stage.conv.forward(stage.norm.forward(x))
                         : stage.norm.forward(stage.conv.forward(x));
    for (const Block& block : stage.blocks) {
      x = block.points.forward(build_.ctx, std::move(x), in);
      x = block.channels.forward(build_.ctx, std::move(x), in);
    }
  }
  return x;
}

}  // namespace tandem
