#include "text/documents/web_addresses.h"

#include <algorithm>
#include <optional>

namespace tandem {
namespace {

bool is_address_byte(char c) {
  return static_cast<unsigned char>(c) > 0x20 && c != '<' && c != '>' && c != '"' && c != '`' &&
         c != 0x7f;
}

bool is_mail_name_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '.' ||
         c == '_' || c == '-' || c == '+';
}

bool begins_address(std::string_view word) {
  for (const std::string_view start : {"http://", "https://", "ftp://", "www.", "mailto:"})
    if (word.size() > start.size() && word.starts_with(start)) return true;
  return false;
}

bool is_mail_address(std::string_view word) {
  const size_t at = word.find('@');
  if (at == word.npos || at == 0 || word.find('@', at + 1) != word.npos) return false;
  const std::string_view host = word.substr(at + 1);
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(at),
                     is_mail_name_byte) &&
         std::all_of(host.begin(), host.end(), is_mail_name_byte) &&
         host.find('.', 1) != host.npos && !host.ends_with('.');
}

// Without what is the sentence's.
std::string_view without_punctuation(std::string_view word) {
  while (!word.empty()) {
    const char last = word.back();
    const bool closes = last == ')' || last == ']' || last == '}';
    const char opener = last == ')' ? '(' : last == ']' ? '[' : '{';
    const bool is_foreign = closes && word.find(opener) == word.npos;
    if (!is_foreign && std::string_view(".,;:!?'*_~").find(last) == std::string_view::npos) break;
    word.remove_suffix(1);
  }
  return word;
}

// Where an address may begin in a word: at its begin, and behind its first few brackets.
std::optional<TextSpan> address_in(std::string_view text, size_t begin, size_t end) {
  constexpr size_t kLongest = 2048;
  constexpr int kMostBrackets = 4;
  if (end - begin > kLongest) return std::nullopt;
  for (int tries = 0; tries <= kMostBrackets; ++tries) {
    const std::string_view word = without_punctuation(text.substr(begin, end - begin));
    if (begins_address(word) || is_mail_address(word)) return TextSpan{begin, begin + word.size()};
    begin = text.substr(0, end).find_first_of("([", begin);
    if (begin == text.npos) break;
    ++begin;
  }
  return std::nullopt;
}

}  // namespace

std::vector<TextSpan> web_addresses_of(std::string_view text) {
  std::vector<TextSpan> out;
  for (size_t at = 0; at < text.size();) {
    if (!is_address_byte(text[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && is_address_byte(text[end])) ++end;
    if (const auto found = address_in(text, at, end)) out.push_back(*found);
    at = end;
  }
  return out;
}

}  // namespace tandem
