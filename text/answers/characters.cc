// UTF-8 to characters and back; lines.
#include "text/answers/characters.h"

#include "base/strings/utf8.h"

namespace tandem {

std::u32string characters_of(std::string_view text) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    out += c.value;
    at += static_cast<size_t>(c.length);
  }
  return out;
}

std::string utf8_of(std::u32string_view characters) {
  std::string out;
  for (const char32_t c : characters) append_utf8(c, out);
  return out;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  for (size_t at; (at = text.find('\n')) != text.npos; text.remove_prefix(at + 1))
    out.emplace_back(text.substr(0, at));
  out.emplace_back(text);
  return out;
}

std::string joined_lines(const std::vector<std::string>& lines, size_t first, size_t last) {
  std::string out;
  for (size_t i = first; i < last && i < lines.size(); ++i)
    out.append(i == first ? "" : "\n").append(lines[i]);
  return out;
}

}  // namespace tandem
