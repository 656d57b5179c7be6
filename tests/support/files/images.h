// The images of tests/data/images, and what Pillow makes of them (scripts/goldens/make_images.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/media/image/image_file.h"

namespace tandem::testing {

inline std::filesystem::path images_dir() {
  return std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/images";
}

inline std::string image_bytes(const std::string& name) {
  return read_image_file((images_dir() / name).string(), "file");
}

inline nlohmann::json expected_images() { return load_json(images_dir() / "expected.json"); }

// CRC-32, as zlib has it.
inline uint32_t crc_of(const uint8_t* data, size_t size) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0u);
  }
  return ~crc;
}
inline uint32_t crc_of(const Image& image) { return crc_of(image.rgb.data(), image.rgb.size()); }

}  // namespace tandem::testing
