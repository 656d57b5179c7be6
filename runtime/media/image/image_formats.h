// The readers behind decode_image() (image_file.h), one to a format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/media/image/image_file.h"

namespace tandem {

Image decode_png(std::string_view bytes, const std::string& field);
Image decode_jpeg(std::string_view bytes, const std::string& field);

// Throws InputError (`field`) where an image of that size is not unpacked.
void check_image_size(int64_t width, int64_t height, const std::string& field);

}  // namespace tandem
