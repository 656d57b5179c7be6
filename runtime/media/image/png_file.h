// Pixels → a PNG file.
#pragma once

#include <string>

#include "runtime/media/image/image.h"

namespace tandem {

// Eight bits a channel, exactly the pixels.
std::string png_file(const Image& image);

}  // namespace tandem
