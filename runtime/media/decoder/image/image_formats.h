// The readers behind decode_image() (image_decoder.h), one to a format.
#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/media/image/image.h"

namespace tandem::decoder {

inline constexpr int kMaxImageScans = 100;  // of a progressive JPEG

// Of all of a file's bytes. Throw DecodeError: it is cut, broken, over the bounds, or of a kind
// that Pillow does not read either.
Image decode_png(std::string_view bytes);
Image decode_jpeg(std::string_view bytes);
Image decode_webp(std::string_view bytes);
Image decode_gif(std::string_view bytes);
Image decode_bmp(std::string_view bytes);
Image decode_tiff(std::string_view bytes);

// Throws DecodeError where an image of that size is not unpacked.
void check_image_size(int64_t width, int64_t height);
// Black, of a size that was checked.
Image make_image(int64_t width, int64_t height);

}  // namespace tandem::decoder
