#include "text/documents/encode_text.h"

#include <algorithm>

#include "base/strings/utf8.h"
#include "text/documents/readers/html_entities.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

// For HTML, XML and WebVTT.
std::string encode_markup(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      default: out += c;
    }
  }
  return out;
}

// XML has no other control characters.
std::string encode_xml(std::string_view text) {
  std::string out = encode_markup(text);
  std::erase_if(out, [](char c) { return static_cast<unsigned char>(c) < 0x20 && c != '\t'; });
  return out;
}

// SubRip has no escapes. What would be a line of times is none.
std::string encode_subrip(std::string_view text) {
  std::string out(text);
  for (size_t at = out.find("-->"); at != out.npos; at = out.find("-->", at))
    out.replace(at, 3, "->");
  return out;
}

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

// How long a list item's number is at the text's begin, without its "." or ")".
size_t item_number(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  const bool is_one = end > 0 && end < 10 && end < text.size() &&
                      (text[end] == '.' || text[end] == ')') &&
                      (end + 1 == text.size() || text[end + 1] == ' ');
  return is_one ? end : 0;
}

bool is_between_words(std::string_view text, size_t at) {
  if (at == 0 || at + 1 >= text.size()) return true;
  return !is_word(code_point_at(text, previous_position(text, at)).value) ||
         !is_word(code_point_at(text, at + 1).value);
}

std::string encode_markdown(std::string_view text, bool first, bool before_markup) {
  std::string out;
  const size_t number = first ? item_number(text) : 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    bool escape = false;
    switch (c) {
      case '*':
      case '`':
      case '[':
      case ']':
      case '<':
      case '|': escape = true; break;
      case '\\': escape = next == '\0' || is_ascii_punctuation(next); break;
      case '_': escape = is_between_words(text, i); break;
      case '~': escape = next == '~' || (i > 0 && text[i - 1] == '~') || before_markup; break;
      case '!': escape = next == '[' || (next == '\0' && before_markup); break;
      case '&': escape = character_reference(text, i, /*old_names=*/false).length > 0; break;
      case '#':
      case '+':
      case '-':
      case '=':
      case '>': escape = first && i == 0; break;
      case '.':
      case ')': escape = number > 0 && i == number; break;
      default: break;
    }
    if (escape) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

EncodeText encoder_of(DocumentFormat format) {
  switch (format) {
    case DocumentFormat::kText: break;
    case DocumentFormat::kMarkdown: return encode_markdown;
    case DocumentFormat::kXml:
      return [](std::string_view text, bool, bool) { return encode_xml(text); };
    case DocumentFormat::kHtml:
    case DocumentFormat::kVtt:
      return [](std::string_view text, bool, bool) { return encode_markup(text); };
    case DocumentFormat::kSrt:
      return [](std::string_view text, bool, bool) { return encode_subrip(text); };
  }
  return [](std::string_view text, bool, bool) { return std::string(text); };
}

}  // namespace tandem
