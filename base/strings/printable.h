// Text from a file of unknown origin, made fit for an error message: ASCII only, of bounded length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

namespace detail {

// The shown part of `text`, up to `limit`; `more` follows if that is not all.
inline std::string shown(std::string_view text, size_t limit, std::string& more) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char character : text) {
    if (out.size() >= limit) {
      more = " (" + std::to_string(text.size()) + " characters)";
      return out + "...";
    }
    const auto c = static_cast<unsigned char>(character);
    if (c >= 0x20 && c < 0x7f)
      out += character;
    else
      out += {'\\', 'x', kHex[c >> 4], kHex[c & 15]};
  }
  return out;
}

}  // namespace detail

// Bytes outside printable ASCII become \xNN. Text longer than `limit` is cut, with its length:
// abc... (5000000 characters).
inline std::string printable(std::string_view text, size_t limit = 160) {
  std::string more;
  const std::string out = detail::shown(text, limit, more);
  return out + more;
}

inline std::string in_quotes(std::string_view text) {
  std::string more;
  const std::string out = detail::shown(text, 160, more);
  return '"' + out + '"' + more;
}

}  // namespace tandem
