// Colors as Pillow makes them of others.
#pragma once

#include <cstdint>

namespace tandem::decoder {

// a * b / 255, rounded as Pillow does.
inline uint8_t product(int a, int b) {
  const int sum = a * b + 128;
  return static_cast<uint8_t>(((sum >> 8) + sum) >> 8);
}

// Four bytes of ink a pixel → three of light.
inline void cmyk_to_rgb(const uint8_t* from, uint8_t* to, int width) {
  for (int x = 0; x < width; ++x, from += 4, to += 3) {
    const int light = 255 - from[3];
    for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(light - product(from[c], light));
  }
}

}  // namespace tandem::decoder
