// Any bytes as an image: an error, or all of its pixels, of any other size.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "runtime/media/image/image_resize.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const tandem::Image image =
        tandem::decode_image({reinterpret_cast<const char*>(data), size}, "image");
    const auto pixels = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
    if (image.width < 1 || image.height < 1 || image.rgb.size() != 3 * pixels) std::abort();
    const auto filter = static_cast<tandem::Resample>(data[size - 1] % 6);
    if (tandem::resize(image, 9, 5, filter).rgb.size() != 3 * 45) std::abort();
  } catch (const tandem::InputError&) {
  }
  return 0;
}
