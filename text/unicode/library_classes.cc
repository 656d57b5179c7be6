// What ICU says, limited to an age, and the few characters whose category or script has changed
// since then.
#include "text/unicode/library_classes.h"

#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include <cstdint>

#include "base/strings/utf8.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

UChar32 icu_character(char32_t c) { return static_cast<UChar32>(c); }

// Assigned, and not later than in this version of Unicode.
bool is_of_age(char32_t c, uint8_t version) {
  UVersionInfo age;
  u_charAge(icu_character(c), age);
  return age[0] > 0 && (age[0] < version || (age[0] == version && age[1] == 0));
}

bool has_category(char32_t c, uint32_t mask) {
  return (U_MASK(u_charType(icu_character(c))) & mask) != 0;
}

}  // namespace

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return in_range(c, '!', '/') || in_range(c, ':', '@') || in_range(c, '[', '`') ||
           in_range(c, '{', '~');
  if (c == 0x166D || c == 0x111C9) return true;
  return has_category(c, U_GC_P_MASK) && is_of_age(c, 8);
}

bool is_control(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return has_category(c, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK) && is_of_age(c, 7);
}

bool is_mark(char32_t c) {
  if (c < 0x300 || c == 0x111C9) return false;
  if (in_range(c, 0x1CF2, 0x1CF3)) return true;
  return has_category(c, U_GC_M_MASK) && is_of_age(c, 9);
}

bool is_nonspacing_mark(char32_t c) {
  if (c < 0x300 || in_range(c, 0x1885, 0x1886) || c == 0xA9BD || c == 0x111C9) return false;
  if (c == 0x1734 || c == 0x1171E) return true;
  return has_category(c, U_GC_MN_MASK) && is_of_age(c, 8);
}

bool is_numeric(char32_t c) {
  return is_number(c) || in_range(c, 0x11DE0, 0x11DE9) || in_range(c, 0x16FF4, 0x16FF6);
}

void append_lowercase(char32_t c, std::string& out) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(in_range(c, 'A', 'Z') ? c + ('a' - 'A') : c));
    return;
  }
  char32_t lower = static_cast<char32_t>(u_tolower(icu_character(c)));
  switch (c) {
    case 0x130: return append_utf8('i', out), append_utf8(0x307, out);
    case 0xA7CB: lower = 0x264; break;
    case 0xA7DC: lower = 0x19B; break;
    case 0x1C89:
    case 0xA7CC:
    case 0xA7CE:
    case 0xA7D2:
    case 0xA7D4:
    case 0xA7DA: lower = c + 1; break;
    default:
      if (in_range(c, 0x10D50, 0x10D65)) lower = c + 0x20;
      if (in_range(c, 0x16EA0, 0x16EB8)) lower = c + 0x1B;
  }
  append_utf8(lower, out);
}

int script_of(char32_t c) {
  if (c == 0x589 || c == 0x61C) return USCRIPT_COMMON;
  if (in_range(c, 0x953, 0x954)) return USCRIPT_DEVANAGARI;
  if (!is_of_age(c, 9)) return kAnyScript;
  UErrorCode status = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(icu_character(c), &status);
  return U_FAILURE(status) || script == USCRIPT_UNKNOWN ? kAnyScript : script;
}

}  // namespace tandem
