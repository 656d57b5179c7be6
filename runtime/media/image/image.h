// Pixels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem {

// Rows of pixels, [height, width, 3].
struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;

  static Image black(int width, int height) {
    Image out;
    out.width = width;
    out.height = height;
    out.rgb.resize(size_t{3} * out.index(height));
    return out;
  }
  const uint8_t* row(int y) const { return rgb.data() + size_t{3} * index(y); }
  uint8_t* row(int y) { return rgb.data() + size_t{3} * index(y); }

 private:
  size_t index(int y) const { return static_cast<size_t>(y) * static_cast<size_t>(width); }
};

// What is taken of a file; checked before anything is unpacked.
inline constexpr size_t kMaxImageBytes = size_t{32} << 20;
inline constexpr int64_t kMaxImagePixels = int64_t{32} << 20;
inline constexpr int64_t kMaxImageSide = 65'500;  // JPEG's own

}  // namespace tandem
