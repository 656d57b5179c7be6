// The patches of an image of any shape, as HuggingFace's processor of Pix2Struct makes them (Lee et
// al. 2022): as many as may be, in a grid of about the image's shape.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/media/image/image.h"

namespace tandem {

struct PatchGridSteps {
  int64_t max_patches = 2048;
  int patch_height = 16, patch_width = 16;
  bool normalize = true;  // by the image's own mean and deviation

  int64_t patch_values() const { return int64_t{3} * patch_height * patch_width; }
};

// Rows of a patch each: its row and column, from 1, then its values, pixel by pixel.
struct PatchRows {
  int64_t count = 0;
  std::vector<float> values;
};
PatchRows patch_grid_of(const Image& image, const PatchGridSteps& steps);

}  // namespace tandem
