#include "text/documents/readers/html_entities.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <unordered_map>

#include "base/strings/utf8.h"
#include "text/documents/html_entities_list.h"

namespace tandem {
namespace {

constexpr size_t kLongestOldName = 6;  // "frac12"

struct NamedCharacters {
  std::string text;
  bool old_name = false;
};
using EntityTable = std::unordered_map<std::string_view, NamedCharacters>;

// Lines of the list: code points, in base 16 and joined by "+", and their names; those with a "!"
// need no semicolon.
EntityTable read_table(std::string_view list) {
  EntityTable out;
  while (!list.empty()) {
    const size_t line_end = list.find('\n');
    std::string_view line = list.substr(0, line_end);
    list.remove_prefix(line_end + 1);
    std::string text;
    const size_t names = line.find(' ');
    for (std::string_view codes = line.substr(0, names); !codes.empty();) {
      const size_t end = std::min(codes.find('+'), codes.size());
      uint32_t code = 0;
      std::from_chars(codes.data(), codes.data() + end, code, 16);
      append_utf8(static_cast<char32_t>(code), text);
      codes.remove_prefix(std::min(end + 1, codes.size()));
    }
    for (line.remove_prefix(names + 1); !line.empty();) {
      const size_t end = std::min(line.find(' '), line.size());
      std::string_view name = line.substr(0, end);
      line.remove_prefix(std::min(end + 1, line.size()));
      const bool old_name = name.ends_with('!');
      if (old_name) name.remove_suffix(1);
      out[name] = {text, old_name};
    }
  }
  return out;
}

const NamedCharacters* find_name(std::string_view name) {
  static const EntityTable table = read_table(documents::html_entities_txt);
  const auto it = table.find(name);
  return it == table.end() ? nullptr : &it->second;
}

// Numbers that mean Windows' characters, for HTML.
constexpr std::array<char16_t, 32> kWindows = {
    0x20AC, 0x81,   0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
    0x2039, 0x0152, 0x8D,   0x017D, 0x8F,   0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D,   0x017E, 0x0178};

char32_t character_of(uint32_t number) {
  if (number >= 0x80 && number < 0x80 + kWindows.size()) return kWindows[number - 0x80];
  const bool none = number == 0 || number > 0x10FFFF || (number >= 0xD800 && number < 0xE000);
  return none ? char32_t{0xFFFD} : static_cast<char32_t>(number);
}

// text begins behind the "&#".
CharacterReference numeric_reference(std::string_view text) {
  const bool hex = text.starts_with('x') || text.starts_with('X');
  const std::string_view digits = text.substr(hex ? 1 : 0);
  const std::string_view known = hex ? "0123456789abcdefABCDEF" : "0123456789";
  const size_t count = std::min(digits.find_first_not_of(known), digits.size());
  if (count == 0) return {};
  uint32_t number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + count, number, hex ? 16 : 10);
  if (read.ec != std::errc()) number = UINT32_MAX;
  CharacterReference out;
  out.length = 2 + (hex ? 1 : 0) + count + (digits.substr(count).starts_with(';') ? 1 : 0);
  append_utf8(character_of(number), out.text);
  return out;
}

bool is_name_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

}  // namespace

CharacterReference character_reference(std::string_view text, size_t position, bool old_names) {
  constexpr size_t kLongestName = 40;
  std::string_view rest = text.substr(position + 1, kLongestName);
  if (rest.starts_with('#')) return numeric_reference(text.substr(position + 2));
  size_t end = 0;
  while (end < rest.size() && is_name_byte(rest[end])) ++end;
  if (end < rest.size() && rest[end] == ';')
    if (const NamedCharacters* found = find_name(rest.substr(0, end)))
      return {end + 2, found->text};
  if (!old_names) return {};
  for (size_t length = std::min(end, kLongestOldName); length > 1; --length) {
    const NamedCharacters* found = find_name(rest.substr(0, length));
    if (found != nullptr && found->old_name) return {length + 1, found->text};
  }
  return {};
}

}  // namespace tandem
