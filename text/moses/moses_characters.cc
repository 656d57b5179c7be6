#include "text/moses/moses_characters.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "text/unicode/unicode_classes.h"

namespace tandem::moses {
namespace {

#include "text/moses/moses_tables.inc"

// Sorted ranges.
bool in(std::span<const CodePointRange> ranges, char32_t c) {
  const auto behind = std::upper_bound(
      ranges.begin(), ranges.end(), c,
      [](char32_t value, const CodePointRange& range) { return value < range.first; });
  return behind != ranges.begin() && c <= std::prev(behind)->last;
}

struct Language {
  std::string_view name;
  std::span<const std::string_view> always, before_numbers;
};
constexpr Language kLanguages[] = {{"de", kDeAlways, kDeBeforeNumbers},
                                   {"en", kEnAlways, kEnBeforeNumbers},
                                   {"ru", kRuAlways, kRuBeforeNumbers}};

const Language* find(std::string_view name) {
  for (const Language& language : kLanguages)
    if (language.name == name) return &language;
  return nullptr;
}

bool has(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

bool is_alnum(char32_t c) { return in(kAlnum, c); }
bool is_alpha(char32_t c) { return in(kAlpha, c); }
bool is_plain_alpha(char32_t c) { return in(kPlainAlpha, c); }
bool is_number(char32_t c) { return in(kNumber, c); }
bool is_currency(char32_t c) { return in(kCurrency, c); }
bool is_lower(char32_t c) { return in(kLower, c); }

bool is_cjk(char32_t c) {
  static constexpr CodePointRange kRanges[] = {
      {0x1100, 0x11ff},   {0x2e80, 0xa4cf},   {0xa840, 0xa87f},  {0xac00, 0xd7af},
      {0xf900, 0xfaff},   {0xfe30, 0xfe4f},   {0xff65, 0xffdc},  {0x17000, 0x18aff},
      {0x1b000, 0x1b12f}, {0x1b170, 0x1b2ff}, {0x20000, 0x2ffff}};
  return in(kRanges, c);
}

bool knows(std::string_view language) { return find(language) != nullptr; }

bool keeps_dot(std::string_view language, std::string_view word) {
  const Language* known = find(language);
  return known != nullptr && has(known->always, word) && !has(known->before_numbers, word);
}

bool keeps_dot_before_numbers(std::string_view language, std::string_view word) {
  const Language* known = find(language);
  return known != nullptr && !word.empty() && has(known->before_numbers, word);
}

}  // namespace tandem::moses
