// Files of images → pixels, as Pillow's convert("RGB") gives them. Alpha is dropped; palettes are
// looked up. Of 16 bits the upper ones stay; 16-bit grey is clipped at 255, as there. EXIF's
// orientation is applied, as HuggingFace's load_image() does. docs/images_input.md
#pragma once

#include <string>
#include <string_view>

#include "runtime/media/image/image.h"

namespace tandem {

class DecoderRun;

// Any bytes, which a decoder of this process's reads (DecoderPool). Throws InputError (`field`):
// no image that is read, cut, broken, or over the bounds; or there is no decoder.
Image decode_image(std::string_view bytes, const std::string& field);

// What a decoder of pixels sends. Throws as decode_image().
Image receive_image(DecoderRun& run, const std::string& field);

// The bytes of a file of at most kMaxImageBytes; "-" is standard input. Throws InputError (`field`)
// naming it.
std::string read_image_file(const std::string& path, const std::string& field);

}  // namespace tandem
