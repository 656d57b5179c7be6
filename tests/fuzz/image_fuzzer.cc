// Any bytes as an image: an error, or all of its pixels, of any other size. In this process,
// without the decoder's sandbox.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string_view>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/image/image_decoder.h"
#include "runtime/media/image/image_resize.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::decoder::MemorySource source({reinterpret_cast<const char*>(data), size});
  try {
    const tandem::Image image = tandem::decoder::decode_image(source);
    const auto pixels = static_cast<size_t>(image.width) * static_cast<size_t>(image.height);
    if (image.width < 1 || image.height < 1 || image.rgb.size() != 3 * pixels) std::abort();
    if (pixels > size_t{1} << 16) return 0;  // as many sizes as can be tried
    const auto filter = static_cast<tandem::Resample>(data[size - 1] % 6);
    if (tandem::resize(image, 9, 5, filter).rgb.size() != 3 * 45) std::abort();
  } catch (const tandem::decoder::DecodeError&) {
  } catch (const std::bad_alloc&) {  // the program ends, with a status that says so
  }
  return 0;
}
