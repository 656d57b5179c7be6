// The first layers of a vision transformer's encoder: a product of each patch of an image, learned
// tokens before them, learned positions.
#pragma once

#include <cstdint>
#include <vector>

#include "models/config/limits.h"
#include "parallel/layers/layers.h"

namespace tandem {

// A product of each patch.
class PatchProjection {
 public:
  // Of a convolution's kernel, or of a matrix for patches of so many values.
  PatchProjection(const Weights& w, const Build& b, int64_t d_model, const ImagePatches& patches);
  PatchProjection(const Weights& w, const Build& b, int64_t d_model, int64_t values);
  // [patches, width] f32 → [patches, d_model].
  Tensor forward(const Tensor& frames) const { return linear_.forward(part_of(frames)); }

 private:
  Tensor part_of(const Tensor& frames) const;

  Build build_;
  Range part_;  // of a patch's values: this rank's
  RowParallelLinear linear_;
};

class PatchEmbeddings {
 public:
  struct Names {
    std::vector<const char*> tokens;
    const char* projection = "patch_embeddings.projection";
    const char* positions = "position_embeddings";
  };
  // w: the tensors of these names.
  PatchEmbeddings(const Weights& w, const Build& b, int64_t d_model, const ImagePatches& patches,
                  const Names& names);
  // frames: [images * patches, width] f32; positions: [images * (tokens + patches)] i32, 0 where an
  // image begins. Returns [images * (tokens + patches), d_model].
  Tensor forward(const Tensor& frames, const Tensor& positions) const;

 private:
  Build build_;
  int64_t num_tokens_, num_patches_;
  PatchProjection projection_;
  Tensor positions_;  // [tokens + patches, d_model], with the tokens
};

}  // namespace tandem
