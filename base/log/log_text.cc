#include "base/log/log_text.h"

#include <algorithm>
#include <cstdio>

#include "base/strings/utf8.h"

namespace tandem {
namespace {

bool needs_escape(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

void append_escape(char32_t c, std::string& out) {
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else {
    char text[16];
    std::snprintf(text, sizeof text, c < 0x80 ? "\\x%02x" : "\\u%04x", static_cast<unsigned>(c));
    out += text;
  }
}

std::string escape(std::string_view text, std::string_view also) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = std::min(find_invalid_utf8(text), text.size());
    for (size_t at = 0; at < valid;) {
      const CodePoint c = code_point_at(text, at);
      const std::string_view bytes = text.substr(at, static_cast<size_t>(c.length));
      at += bytes.size();
      if (needs_escape(c.value)) {
        append_escape(c.value, out);
      } else {
        if (also.find(bytes.front()) != also.npos) out += '\\';
        out += bytes;
      }
    }
    text.remove_prefix(valid);
    if (text.empty()) break;
    char byte[8];
    std::snprintf(byte, sizeof byte, "\\x%02x", static_cast<unsigned char>(text.front()));
    out += byte;
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace

std::string escape_controls(std::string_view text) { return escape(text, {}); }
std::string escape_field(std::string_view text) { return escape(text, "\"\\"); }

}  // namespace tandem
