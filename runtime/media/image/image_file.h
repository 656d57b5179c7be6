// PNG and JPEG files → pixels, as Pillow's convert("RGB") has them: alpha is dropped, palettes are
// looked up, of 16 bits the upper ones stay (of grey ones: what is over 255 becomes 255, as there).
// EXIF's orientation is applied, as HuggingFace's load_image() does. docs/images_input.md
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Rows of pixels, [height, width, 3].
struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;

  const uint8_t* row(int y) const { return rgb.data() + size_t{3} * index(y); }
  uint8_t* row(int y) { return rgb.data() + size_t{3} * index(y); }

 private:
  size_t index(int y) const { return static_cast<size_t>(y) * static_cast<size_t>(width); }
};

// What is believed of a file, before anything is unpacked.
inline constexpr size_t kMaxImageBytes = size_t{32} << 20;
inline constexpr int64_t kMaxImagePixels = int64_t{32} << 20;
inline constexpr int64_t kMaxImageSide = 65'500;  // JPEG's own
inline constexpr int kMaxImageScans = 100;        // of a progressive JPEG

// Any bytes. Throws InputError (`field`): neither PNG nor JPEG, cut, broken, or over the bounds.
Image decode_image(std::string_view bytes, const std::string& field);

// The bytes of a file of at most kMaxImageBytes, not of a device or a pipe. Throws InputError
// (`field`) naming it.
std::string read_image_file(const std::string& path, const std::string& field);

}  // namespace tandem
