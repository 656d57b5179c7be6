// Text from a file of unknown origin, made fit for an error message: ASCII only, of bounded length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

// Bytes outside printable ASCII become \xNN; what is longer than `limit` is cut.
inline std::string printable(std::string_view text, size_t limit = 160) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (out.size() >= limit) return out + "...";
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c < 0x7f)
      out += static_cast<char>(c);
    else
      out += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
  }
  return out;
}

inline std::string in_quotes(std::string_view text) {
  std::string out(1, '"');
  out += printable(text);
  out += '"';
  return out;
}

}  // namespace tandem
