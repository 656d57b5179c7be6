// White space as Python's str methods mean it, of valid UTF-8.
#pragma once

#include <string_view>

#include "text/unicode/unicode_classes.h"

namespace tandem {

// Also of \s in its expressions: white space, and U+001C to U+001F.
inline bool is_python_space(char32_t c) { return is_space(c) || (c >= 0x1c && c <= 0x1f); }

// str.lstrip(), str.rstrip(), str.strip()
std::string_view left_stripped(std::string_view text);
std::string_view right_stripped(std::string_view text);
inline std::string_view stripped(std::string_view text) {
  return right_stripped(left_stripped(text));
}

}  // namespace tandem
