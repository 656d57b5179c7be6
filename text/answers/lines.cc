#include "text/answers/lines.h"

namespace tandem {

std::vector<std::string> split_lines(std::string_view text) {
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
