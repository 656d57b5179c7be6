// Text by the character, as OpenAI, Python and Unicode count it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

// Characters (code points) of valid UTF-8: the bytes that begin one.
inline size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

// Of valid UTF-8, and back.
std::u32string code_points_of(std::string_view text);
std::string utf8_of(std::u32string_view code_points);

}  // namespace tandem
