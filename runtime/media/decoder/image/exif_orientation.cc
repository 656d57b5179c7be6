#include "runtime/media/decoder/image/exif_orientation.h"

#include <cstring>
#include <optional>
#include <utility>

namespace tandem::decoder {
namespace {

constexpr uint32_t kOrientation = 0x0112;
constexpr size_t kEntry = 12;  // bytes: tag, type, count, value

// Numbers of a TIFF file.
class TiffReader {
 public:
  TiffReader(std::string_view bytes, bool big) : bytes_(bytes), big_(big) {}

  // Of `size` bytes; nothing: the file is shorter.
  std::optional<uint32_t> number(size_t at, size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) return std::nullopt;
    uint32_t out = 0;
    for (size_t i = 0; i < size; ++i)
      out = out << 8 | static_cast<uint8_t>(bytes_[at + (big_ ? i : size - 1 - i)]);
    return out;
  }

 private:
  std::string_view bytes_;
  bool big_;
};

size_t bytes_of_type(uint32_t type) { return type == 1 ? 1 : type == 3 ? 2 : type == 4 ? 4 : 0; }

}  // namespace

int exif_orientation(std::string_view exif) {
  constexpr std::string_view kMark("Exif\0\0", 6);
  if (exif.starts_with(kMark)) exif.remove_prefix(kMark.size());
  const bool big = exif.starts_with(std::string_view("MM\0*", 4));
  if (!big && !exif.starts_with(std::string_view("II*\0", 4))) return 1;
  const TiffReader in(exif, big);
  const auto directory = in.number(4, 4);
  const auto entries = directory ? in.number(*directory, 2) : std::nullopt;
  for (size_t i = 0; i < entries.value_or(0); ++i) {
    const size_t at = size_t{*directory} + 2 + kEntry * i;
    const auto tag = in.number(at, 2), type = in.number(at + 2, 2), count = in.number(at + 4, 4);
    if (!count) return 1;
    if (tag != kOrientation) continue;
    const auto value = in.number(at + 8, bytes_of_type(*type));
    return count == 1u && value && *value >= 1 && *value <= 8 ? static_cast<int>(*value) : 1;
  }
  return 1;
}

Image upright(Image image, int orientation) {
  if (orientation < 2 || orientation > 8) return image;
  const bool lying = orientation >= 5;  // rows become columns
  // Whether rows and columns of the file are counted from their ends.
  const bool rows_back =
                 orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7,
             columns_back =
                 orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  Image out;
  out.width = lying ? image.height : image.width;
  out.height = lying ? image.width : image.height;
  out.rgb.resize(image.rgb.size());
  for (int y = 0; y < out.height; ++y)
    for (int x = 0; x < out.width; ++x) {
      const int row = lying ? x : y, column = lying ? y : x;
      const uint8_t* from = image.row(rows_back ? image.height - 1 - row : row) +
                            3 * (columns_back ? image.width - 1 - column : column);
      std::memcpy(out.row(y) + 3 * x, from, 3);
    }
  return out;
}

}  // namespace tandem::decoder
