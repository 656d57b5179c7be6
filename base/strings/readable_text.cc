// Character by character; a cut never splits one.
#include "base/strings/readable_text.h"

#include "base/strings/utf8.h"

namespace tandem {
namespace {

void append_escaped(std::string_view bytes, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (const char byte : bytes) {
    const auto b = static_cast<unsigned char>(byte);
    out += {'\\', 'x', kHex[b >> 4], kHex[b & 15]};
  }
}

// C0 and C1; and what reorders or hides text around it.
bool is_control(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

}  // namespace

std::string readable(std::string_view text, size_t limit) {
  std::string out;
  for (size_t at = 0, valid_until = 0; at < text.size();) {
    if (out.size() >= limit) return out + "… (" + std::to_string(text.size()) + " characters)";
    if (at >= valid_until) {
      const size_t invalid = find_invalid_utf8(text.substr(at));
      valid_until = invalid == std::string_view::npos ? text.size() : at + invalid;
      if (invalid == 0) {
        append_escaped(text.substr(at++, 1), out);
        continue;
      }
    }
    const CodePoint c = code_point_at(text, at);
    const std::string_view bytes = text.substr(at, static_cast<size_t>(c.length));
    if (is_control(c.value))
      append_escaped(bytes, out);
    else
      out += bytes;
    at += bytes.size();
  }
  return out;
}

}  // namespace tandem
