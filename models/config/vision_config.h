// The sizes of a vision transformer as HuggingFace's configurations of ViT and its kin have them.
#pragma once

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

// Throws InputError naming the key.
VisionConfig read_vision(const ConfigReader& in);

}  // namespace tandem
