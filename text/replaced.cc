#include "text/replaced.h"

#include <cstddef>

#include "base/strings/utf8.h"

namespace tandem {

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  if (from.empty()) {
    for (size_t at = 0; at < text.size();) {
      const auto length = static_cast<size_t>(code_point_at(text, at).length);
      out.append(to).append(text.substr(at, length));
      at += length;
    }
    return out.append(to);
  }
  for (size_t at = 0;;) {
    const size_t found = text.find(from, at);
    out += text.substr(at, found - at);
    if (found == std::string_view::npos) return out;
    out += to;
    at = found + from.size();
  }
}

}  // namespace tandem
