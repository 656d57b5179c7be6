// The first layer of a vision transformer's encoder: a product of each patch of an image, learned
// tokens before them, learned positions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "models/config/limits.h"
#include "parallel/layers/layers.h"

namespace tandem {

class PatchEmbeddings {
 public:
  // w: "patch_embeddings.projection", "position_embeddings", and the tokens, by their names there.
  PatchEmbeddings(const Weights& w, const Build& b, int64_t d_model, const ImagePatches& patches,
                  std::initializer_list<const char*> tokens);
  // frames: [images * patches, width] f32; positions: [images * (tokens + patches)] i32, 0 where an
  // image begins. Returns [images * (tokens + patches), d_model].
  Tensor forward(const Tensor& frames, const Tensor& positions) const;

 private:
  Tensor part_of(const Tensor& frames) const;
  Tensor sent(const std::vector<int32_t>& values) const;

  Build build_;
  int64_t num_tokens_, num_patches_;
  Range part_;  // of a patch's values: this rank's
  RowParallelLinear projection_;
  Tensor positions_;  // [tokens + patches, d_model], with the tokens
};

}  // namespace tandem
