#include "runtime/media/image/image_file.h"

#include "base/error.h"
#include "base/file_bytes.h"
#include "runtime/media/image/image_formats.h"

namespace tandem {

void check_image_size(int64_t width, int64_t height, const std::string& field) {
  const std::string size = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (width < 1 || height < 1) throw invalid_request(field, "has " + size);
  if (width > kMaxImageSide || height > kMaxImageSide || width * height > kMaxImagePixels)
    throw InputError(ErrorKind::kResource,
                     field + ": has " + size + ", at most " + std::to_string(kMaxImagePixels) +
                         " and " + std::to_string(kMaxImageSide) + " a side are read",
                     field);
}

Image decode_image(std::string_view bytes, const std::string& field) {
  if (bytes.empty()) throw invalid_request(field, "is empty");
  if (bytes.size() > kMaxImageBytes)
    throw InputError(ErrorKind::kResource,
                     field + ": has " + std::to_string(bytes.size()) + " bytes, at most " +
                         std::to_string(kMaxImageBytes) + " are read",
                     field);
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(bytes, field);
  if (bytes.starts_with("\xff\xd8\xff")) return decode_jpeg(bytes, field);
  throw invalid_request(field, "is neither a PNG nor a JPEG image");
}

std::string read_image_file(const std::string& path, const std::string& field) {
  return read_file_bytes(path, kMaxImageBytes, field);
}

}  // namespace tandem
