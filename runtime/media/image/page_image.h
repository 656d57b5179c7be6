// How HuggingFace's processors of pages fit one into the size that a model reads: it keeps its
// shape.
#pragma once

#include <optional>
#include <string>

#include "runtime/media/image/image_resize.h"

namespace tandem {

struct PageSteps {
  int height = 0, width = 0;  // of the result
  bool crop_margin = false;   // what is lighter than the rest, around it
  bool align_long_axis = false;
  bool resize = true;     // the shorter side to the shorter one of the size
  bool thumbnail = true;  // shrinks what is larger than the size
  bool pad = true;        // black around it; else the page has to have the size
  Resample filter = Resample::kBilinear;
  // Of a thumbnail: another filter, which Pillow prepares by `reducing_gap` 2.
  std::optional<Resample> thumbnail_filter = {};
};

// Throws InputError (`field`): a page that is larger than the size after these steps, or not to be
// padded, or one so narrow that it would have more than kMaxImagePixels on the way.
Image fit_page(const Image& page, const PageSteps& steps, const std::string& field);

}  // namespace tandem
