// The sizes of a vision transformer as HuggingFace's configurations of ViT and its kin have them.
#pragma once

#include "models/config/config.h"
#include "models/config/config_reader.h"
#include "models/config/limits.h"

namespace tandem {

struct VisionConfig {
  static constexpr int kMaxImageSide = 4096;
  int d_model = 0, layers = 0, heads = 0, ffn_dim = 0;
  Activation activation = Activation::kGelu;
  ImagePatches patches;
  bool qkv_bias = true;
  float eps = 0;
};

// Of the keys image_size and patch_size, each a number or [height, width]. Throws InputError naming
// the key, also for images of other than three channels.
ImagePatches read_patches(const ConfigReader& in, int image_size, int patch_size);
// HuggingFace's defaults for missing keys, ViT's by default.
struct VisionDefaults {
  int image_size = 224;
  float eps = 1e-12f;
};
// Throws InputError naming the key.
VisionConfig read_vision(const ConfigReader& in, const VisionDefaults& defaults = {});

// Of what the image processor beside config.json makes, in pixels; `otherwise` where no file, or no
// key there, says it. For encoders that read pictures of any size.
struct ImageSize {
  int height = 0, width = 0;
};
ImageSize processed_size(const ModelConfig& config, ImageSize otherwise);

}  // namespace tandem
