// An encoder of pictures in stages whose layers see windows of points, then one another's features
// (DaViT, Ding et al. 2022).
#pragma once

#include <optional>
#include <vector>

#include "models/blocks/feed_forward.h"
#include "models/blocks/pictures/channel_attention.h"
#include "models/blocks/pictures/picture_attention.h"
#include "models/blocks/pictures/picture_conv.h"
#include "models/config/config_reader.h"
#include "models/config/limits.h"

namespace tandem {

struct ChannelEncoderConfig {
  struct Stage {
    ConvSteps steps;  // of the convolution before its layers
    int d_model = 0, layers = 0, heads = 0, groups = 0, ffn_dim = 0;
    bool norm_first = false;  // before the convolution; else behind it
    int64_t points() const { return int64_t{steps.rows()} * steps.columns(); }
  };
  std::vector<Stage> stages;  // at least one
  int height = 0, width = 0;  // of the picture, in pixels
  int window = 0;             // side
  Activation activation = Activation::kGelu;
  bool qkv_bias = true;

  // The most elements of activations alive at once, for a point of the last stage.
  int64_t scratch_values() const;
};

// HuggingFace's keys. Throws InputError naming the key.
ChannelEncoderConfig read_channel_encoder(const ConfigReader& in, int height, int width);

class ChannelEncoder {
 public:
  // w: "convs" and "blocks". All of it is on each rank, tensor parallel.
  ChannelEncoder(const Weights& w, const Build& b, const ChannelEncoderConfig& config);
  // pixels: [pictures * height * width, 3] f32 → [pictures * points of the last stage, its
  // d_model].
  Tensor forward(const Tensor& pixels, const StepTensors& in) const;

 private:
  // x + conv(x), + attention(norm x), + conv of that, + feed_forward(norm x).
  template <class Attention>
  struct Layer {
    PictureConv conv1;
    Norm norm1;
    Attention attention;
    PictureConv conv2;
    Norm norm2;
    FeedForward feed_forward;

    Tensor forward(Context& ctx, Tensor x, const StepTensors& in) const;
  };
  struct Block {
    Layer<PictureAttention> points;
    Layer<ChannelAttention> channels;
  };
  struct Stage {
    bool norm_first;
    Norm norm;
    StridedConv conv;
    std::vector<Block> blocks;
  };
  static Block make_block(const Weights& w, const Build& b, const ChannelEncoderConfig& config,
                          const ChannelEncoderConfig::Stage& stage);

  Build build_;
  std::vector<Stage> stages_;
};

}  // namespace tandem
