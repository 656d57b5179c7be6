#include "text/grammar/character_sets.h"

#include <algorithm>
#include <cctype>

#include "text/grammar/grammar.h"

namespace tandem {
namespace {

icu::UnicodeSet complement(icu::UnicodeSet set) {
  set.complement();
  set.retainAll(all_characters());
  return set;
}

std::optional<icu::UnicodeSet> by_pattern(const std::string& pattern) {
  UErrorCode status = U_ZERO_ERROR;
  icu::UnicodeSet set(icu::UnicodeString::fromUTF8(pattern), status);
  if (U_FAILURE(status) != 0) return std::nullopt;
  return set;
}

}  // namespace

std::optional<icu::UnicodeSet> property_class(const std::string& name) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '=';
  };
  if (name.empty() || !std::all_of(name.begin(), name.end(), is_plain)) return std::nullopt;
  auto set = by_pattern("[\\p{" + name + "}]");
  if (set) set->retainAll(all_characters());
  return set;
}

std::optional<icu::UnicodeSet> letter_class(char32_t letter) {
  static const auto digits = by_pattern("[\\p{Nd}]");
  static const auto words = by_pattern("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]");
  static const auto spaces = by_pattern("[\\p{White_Space}]");
  switch (letter) {
    case U'd': return digits;
    case U'w': return words;
    case U's': return spaces;
    case U'D': return complement(*digits);
    case U'W': return complement(*words);
    case U'S': return complement(*spaces);
    default: return std::nullopt;
  }
}

}  // namespace tandem
