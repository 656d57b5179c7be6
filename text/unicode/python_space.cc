#include "text/unicode/python_space.h"

#include "base/strings/utf8.h"

namespace tandem {

std::string_view left_stripped(std::string_view text) {
  while (!text.empty()) {
    const CodePoint c = code_point_at(text, 0);
    if (!is_python_space(c.value)) break;
    text.remove_prefix(static_cast<size_t>(c.length));
  }
  return text;
}

std::string_view right_stripped(std::string_view text) {
  while (!text.empty()) {
    const size_t last = previous_position(text, text.size());
    if (!is_python_space(code_point_at(text, last).value)) break;
    text = text.substr(0, last);
  }
  return text;
}

}  // namespace tandem
