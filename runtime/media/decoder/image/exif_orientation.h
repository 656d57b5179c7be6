// How a camera was held, as files of images say it. One tag of EXIF's first directory is read here:
// a library for all of EXIF would parse every tag, and makers' own, of bytes that anybody sends.
#pragma once

#include <string_view>

#include "runtime/media/image/image.h"

namespace tandem::decoder {

// Of EXIF data, which begin with a TIFF header, perhaps behind "Exif\0\0": 1 to 8. 1, as it lies:
// also where they do not say, or are broken.
int exif_orientation(std::string_view exif);

// The image as it is to be looked at: Pillow's ImageOps.exif_transpose().
Image upright(Image image, int orientation);

}  // namespace tandem::decoder
