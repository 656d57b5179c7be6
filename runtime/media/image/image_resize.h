// Images of other sizes, bit for bit as Pillow's Image.resize() makes them of 8-bit RGB.
#pragma once

#include "runtime/media/image/image.h"

namespace tandem {

// Pillow's numbers, as preprocessor_config.json has them.
enum class Resample : uint8_t {
  kNearest = 0,
  kLanczos = 1,
  kBilinear = 2,
  kBicubic = 3,
  kBox = 4,
  kHamming = 5
};

// width, height: at least 1.
Image resize(const Image& image, int width, int height, Resample filter);
// As with Pillow's `reducing_gap`: an image that shrinks much is first made smaller by the means of
// blocks of pixels, to `gap` times its size or somewhat more.
Image resize_by_means(const Image& image, int width, int height, Resample filter, double gap);

}  // namespace tandem
