#include "base/strings/code_points.h"

#include "base/strings/utf8.h"

namespace tandem {

std::u32string code_points_of(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    out += c.value;
    at += static_cast<size_t>(c.length);
  }
  return out;
}

std::string utf8_of(std::u32string_view code_points) {
  std::string out;
  for (const char32_t c : code_points) append_utf8(c, out);
  return out;
}

}  // namespace tandem
