// An encoder of pictures in stages (Swin, Liu et al. 2021). Its layers see windows of the picture.
// Between two stages the points of each square of four become one of twice as many features.
#pragma once

#include <optional>
#include <vector>

#include "models/blocks/layers.h"
#include "models/blocks/pictures/patch_embeddings.h"
#include "models/config/config_reader.h"
#include "models/config/limits.h"
#include "models/sides/sides.h"

namespace tandem {

struct PictureEncoderConfig {
  struct Stage {
    int d_model = 0, layers = 0, heads = 0, ffn_dim = 0;
    int height = 0, width = 0;  // of the picture, in points
    int64_t points() const { return int64_t{height} * width; }
  };
  ImagePatches patches;
  std::vector<Stage> stages;  // at least one
  int window = 0;             // side
  Activation activation = Activation::kGelu;
  bool qkv_bias = true;
  float eps = 0;  // of the layers' norms

  int64_t layers() const;
  // The most elements of activations alive at once, for a point of the last stage.
  int64_t scratch_values() const;
};

// HuggingFace's keys of Swin. Throws InputError naming the key.
PictureEncoderConfig read_picture_encoder(const ConfigReader& in);

class PictureEncoder {
 public:
  // w: "embeddings" and "encoder". All of it is on each rank, tensor parallel.
  PictureEncoder(const Weights& w, const Build& b, const PictureEncoderConfig& config);
  // [pictures * patches, width] f32 → [pictures * points of the last stage, its d_model].
  Tensor forward(const StepTensors& in) const;

 private:
  // A square of four points, side by side, normed and multiplied.
  class Merging {
   public:
    Merging(const Weights& w, const Build& b, const PictureEncoderConfig::Stage& stage);
    Tensor forward(const Tensor& x) const;  // [pictures * points, d] → [pictures * merged, 2 d]

   private:
    Build build_;
    PictureEncoderConfig::Stage stage_;
    Norm norm_;
    Range part_;  // of the features: this rank's
    RowParallelLinear reduction_;
  };
  struct Stage {
    std::vector<EncoderLayer> layers;
    std::optional<Merging> merging;  // of all but the last one
  };

  Context& ctx_;
  PatchProjection projection_;
  Norm norm_;
  std::vector<Stage> stages_;
};

}  // namespace tandem
