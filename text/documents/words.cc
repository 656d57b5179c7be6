#include "text/documents/words.h"

#include "base/strings/utf8.h"
#include "text/sentences.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {

bool is_within_word(std::string_view text, size_t at) {
  if (at == 0 || at >= text.size()) return false;
  const char32_t before = code_point_at(text, previous_position(text, at)).value;
  const char32_t behind = code_point_at(text, at).value;
  return is_word(before) && is_word(behind) && !is_written_without_spaces(before) &&
         !is_written_without_spaces(behind);
}

std::string with_single_blanks(std::string_view text) {
  const TextSpan span = trimmed(text, {0, text.size()});
  std::string out;
  out.reserve(span.end - span.begin);
  bool blank = false;
  for (size_t at = span.begin; at < span.end;) {
    const CodePoint c = code_point_at(text, at);
    const bool is_kept = c.value == 0xA0 || c.value == 0x202F || c.value == 0x3000;
    if (is_space(c.value) && !is_kept) {
      blank = true;
    } else {
      if (blank) out += ' ';
      blank = false;
      out += text.substr(at, static_cast<size_t>(c.length));
    }
    at += static_cast<size_t>(c.length);
  }
  return out;
}

bool has_letter(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (is_letter(c.value)) return true;
    at += static_cast<size_t>(c.length);
  }
  return false;
}

}  // namespace tandem
