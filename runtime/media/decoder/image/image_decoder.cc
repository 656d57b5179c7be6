// Which format it is, by its first bytes.
#include "runtime/media/decoder/image/image_decoder.h"

#include <string>
#include <string_view>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/image/image_formats.h"

namespace tandem::decoder {

void check_image_size(int64_t width, int64_t height) {
  const std::string size = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (width < 1 || height < 1) throw unreadable("has " + size);
  if (width > kMaxImageSide || height > kMaxImageSide || width * height > kMaxImagePixels)
    throw too_large("has " + size + ", at most " + std::to_string(kMaxImagePixels) + " and " +
                    std::to_string(kMaxImageSide) + " a side are read");
}

Image make_image(int64_t width, int64_t height) {
  Image out;
  out.width = static_cast<int>(width);
  out.height = static_cast<int>(height);
  out.rgb.resize(static_cast<size_t>(3 * width * height));
  return out;
}

Image decode_image(ByteSource& source) {
  if (source.size() > kMaxImageBytes)
    throw too_large("has " + std::to_string(source.size()) + " bytes, at most " +
                    std::to_string(kMaxImageBytes) + " are read");
  std::string bytes(source.size(), '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const size_t count = source.read(got, bytes.data() + got, bytes.size() - got);
    if (count == 0) break;
    got += count;
  }
  bytes.resize(got);
  const std::string_view b = bytes;
  const auto begins = [&](const char* with, size_t size) {
    return b.starts_with(std::string_view(with, size));
  };
  if (begins("\x89PNG\r\n\x1a\n", 8)) return decode_png(b);
  if (begins("\xff\xd8\xff", 3)) return decode_jpeg(b);
  if (begins("RIFF", 4) && b.substr(0, 12).ends_with("WEBP")) return decode_webp(b);
  if (begins("GIF87a", 6) || begins("GIF89a", 6)) return decode_gif(b);
  if (begins("BM", 2)) return decode_bmp(b);
  if (begins("II*\0", 4) || begins("MM\0*", 4) || begins("II+\0", 4) || begins("MM\0+", 4))
    return decode_tiff(b);
  throw unreadable("is no image that can be read: PNG, JPEG, WebP, GIF, BMP or TIFF");
}

}  // namespace tandem::decoder
