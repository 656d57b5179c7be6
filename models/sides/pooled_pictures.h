// Vectors of pictures for an encoder of texts: a vision transformer (SigLIP, Zhai et al. 2023), the
// means of squares of its patches, a norm and a product.
#pragma once

#include <optional>
#include <vector>

#include "models/blocks/layers.h"
#include "models/blocks/pictures/patch_embeddings.h"
#include "models/config/config_reader.h"
#include "models/config/vision_config.h"

namespace tandem {

struct PooledPicturesConfig {
  VisionConfig vision;
  int square = 0;   // a side of what becomes one vector, in patches
  int d_model = 0;  // of the vectors

  int rows() const { return vision.patches.rows() / square; }
  int columns() const { return vision.patches.columns() / square; }
  int64_t vectors() const { return int64_t{rows()} * columns(); }
  // The most elements of activations alive at once, for each vector.
  int64_t scratch_values() const;
};

// Of HuggingFace's vision_config, whose picture becomes about `vectors` vectors. Nothing: its
// patches are fewer. Throws InputError naming the key.
std::optional<PooledPicturesConfig> read_pooled_pictures(const ConfigReader& in, int vectors,
                                                         int d_model);

class PooledPictures {
 public:
  // w: "vision_tower" and "multi_modal_projector". All of it is on each rank, tensor parallel.
  PooledPictures(const Weights& w, const Build& b, const PooledPicturesConfig& config);
  // Of in.encoder_frames: [pictures * vectors, d_model].
  Tensor forward(const StepTensors& in) const;

 private:
  Tensor pooled(const Tensor& patches) const;

  Build build_;
  PooledPicturesConfig config_;
  Heads heads_;
  PatchProjection projection_;
  Tensor positions_;  // [patches, width] f32
  std::vector<EncoderLayer> layers_;
  Norm last_norm_, pooled_norm_;
  Range part_;  // of the features: this rank's
  RowParallelLinear product_;
};

}  // namespace tandem
