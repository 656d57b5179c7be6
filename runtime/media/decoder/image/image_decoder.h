// A file of an image → pixels, as Pillow's convert("RGB") has them, upright.
#pragma once

#include "runtime/media/decoder/byte_source.h"
#include "runtime/media/image/image.h"

namespace tandem::decoder {

// PNG, JPEG, WebP, GIF, BMP, TIFF; of several images the first. Throws DecodeError: none of them,
// cut, broken, or over the bounds of image.h.
Image decode_image(ByteSource& source);

}  // namespace tandem::decoder
