// ICU's categories, and those of characters that came with Unicode 15.1 and 16.
#include "text/pipeline/pattern_properties.h"

#define ONIG_ESCAPE_UCHAR_COLLISION  // UChar is ICU's
#include <oniguruma.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {
namespace {

constexpr size_t kCodePoints = 0x110000;
constexpr int kMaxNestedGroups = 64;
constexpr std::string_view kWordProperty = "TandemWord", kPunctProperty = "TandemPunct",
                           kWordInClassProperty = "TandemWordInClass";

struct Category {
  UChar32 first, last;
  int8_t type;  // UCharCategory
};

constexpr int8_t kLu = U_UPPERCASE_LETTER, kLl = U_LOWERCASE_LETTER, kLm = U_MODIFIER_LETTER,
                 kLo = U_OTHER_LETTER, kMn = U_NON_SPACING_MARK, kMc = U_COMBINING_SPACING_MARK,
                 kNd = U_DECIMAL_DIGIT_NUMBER, kPo = U_OTHER_PUNCTUATION, kPd = U_DASH_PUNCTUATION,
                 kSm = U_MATH_SYMBOL, kSo = U_OTHER_SYMBOL;

// clang-format off
constexpr Category kNewCharacters[] = {
    {0x897, 0x897, kMn}, {0x1B4E, 0x1B4F, kPo}, {0x1B7F, 0x1B7F, kPo}, {0x1C89, 0x1C89, kLu},
    {0x1C8A, 0x1C8A, kLl}, {0x2427, 0x2429, kSo}, {0x2FFC, 0x2FFF, kSo}, {0x31E4, 0x31E5, kSo},
    {0x31EF, 0x31EF, kSo}, {0xA7CB, 0xA7CC, kLu}, {0xA7CD, 0xA7CD, kLl}, {0xA7DA, 0xA7DA, kLu},
    {0xA7DB, 0xA7DB, kLl}, {0xA7DC, 0xA7DC, kLu}, {0x105C0, 0x105F3, kLo},
    {0x10D40, 0x10D49, kNd}, {0x10D4A, 0x10D4D, kLo}, {0x10D4E, 0x10D4E, kLm},
    {0x10D4F, 0x10D4F, kLo}, {0x10D50, 0x10D65, kLu}, {0x10D69, 0x10D6D, kMn},
    {0x10D6E, 0x10D6E, kPd}, {0x10D6F, 0x10D6F, kLm}, {0x10D70, 0x10D85, kLl},
    {0x10D8E, 0x10D8F, kSm}, {0x10EC2, 0x10EC4, kLo}, {0x10EFC, 0x10EFC, kMn},
    {0x11380, 0x11389, kLo}, {0x1138B, 0x1138B, kLo}, {0x1138E, 0x1138E, kLo},
    {0x11390, 0x113B5, kLo}, {0x113B7, 0x113B7, kLo}, {0x113B8, 0x113BA, kMc},
    {0x113BB, 0x113C0, kMn}, {0x113C2, 0x113C2, kMc}, {0x113C5, 0x113C5, kMc},
    {0x113C7, 0x113CA, kMc}, {0x113CC, 0x113CD, kMc}, {0x113CE, 0x113CE, kMn},
    {0x113CF, 0x113CF, kMc}, {0x113D0, 0x113D0, kMn}, {0x113D1, 0x113D1, kLo},
    {0x113D2, 0x113D2, kMn}, {0x113D3, 0x113D3, kLo}, {0x113D4, 0x113D5, kPo},
    {0x113D7, 0x113D8, kPo}, {0x113E1, 0x113E2, kMn}, {0x116D0, 0x116E3, kNd},
    {0x1171E, 0x1171E, kMc}, {0x11BC0, 0x11BE0, kLo}, {0x11BE1, 0x11BE1, kPo},
    {0x11BF0, 0x11BF9, kNd}, {0x11F5A, 0x11F5A, kMn}, {0x13460, 0x143FA, kLo},
    {0x16100, 0x1611D, kLo}, {0x1611E, 0x16129, kMn}, {0x1612A, 0x1612C, kMc},
    {0x1612D, 0x1612F, kMn}, {0x16130, 0x16139, kNd}, {0x16D40, 0x16D42, kLm},
    {0x16D43, 0x16D6A, kLo}, {0x16D6B, 0x16D6C, kLm}, {0x16D6D, 0x16D6F, kPo},
    {0x16D70, 0x16D79, kNd}, {0x18CFF, 0x18CFF, kLo}, {0x1CC00, 0x1CCEF, kSo},
    {0x1CCF0, 0x1CCF9, kNd}, {0x1CD00, 0x1CEB3, kSo}, {0x1E5D0, 0x1E5ED, kLo},
    {0x1E5EE, 0x1E5EF, kMn}, {0x1E5F0, 0x1E5F0, kLo}, {0x1E5F1, 0x1E5FA, kNd},
    {0x1E5FF, 0x1E5FF, kPo}, {0x1F8B2, 0x1F8BB, kSo}, {0x1F8C0, 0x1F8C1, kSo},
    {0x1FA89, 0x1FA89, kSo}, {0x1FA8F, 0x1FA8F, kSo}, {0x1FABE, 0x1FABE, kSo},
    {0x1FAC6, 0x1FAC6, kSo}, {0x1FADC, 0x1FADC, kSo}, {0x1FADF, 0x1FADF, kSo},
    {0x1FAE9, 0x1FAE9, kSo}, {0x1FBCB, 0x1FBEF, kSo}, {0x2EBF0, 0x2EE5D, kLo},
};
// clang-format on

// By code point.
std::vector<int8_t> categories() {
  std::vector<int8_t> types(kCodePoints, U_UNASSIGNED);
  const auto note = [](const void* context, UChar32 start, UChar32 limit, UCharCategory type) {
    auto& out = *static_cast<std::vector<int8_t>*>(const_cast<void*>(context));
    std::fill(out.begin() + start, out.begin() + limit, static_cast<int8_t>(type));
    return static_cast<UBool>(true);
  };
  u_enumCharTypes(note, &types);
  for (const Category& c : kNewCharacters)
    std::fill(types.begin() + c.first, types.begin() + c.last + 1, c.type);
  return types;
}

// In Oniguruma's form: their number, then the first and the last of each.
using Ranges = std::vector<OnigCodePoint>;

Ranges ranges_of(const std::vector<int8_t>& types, uint32_t mask) {
  Ranges out = {0};
  for (OnigCodePoint c = 0; c < kCodePoints; ++c) {
    if ((U_MASK(types[c]) & mask) == 0) continue;
    if (out.size() > 1 && out.back() + 1 == c)
      out.back() = c;
    else
      out.insert(out.end(), {c, c});
  }
  out[0] = static_cast<OnigCodePoint>(out.size() / 2);
  return out;
}

// \w of Oniguruma is Rust's without joiners, and outside of classes with some numbers.
Ranges word_characters(bool in_class) {
  std::vector<CodePointRange> all = word_ranges();
  if (!in_class)
    for (const auto& [first, last] : {std::pair{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}})
      all.push_back({static_cast<char32_t>(first), static_cast<char32_t>(last)});
  std::sort(all.begin(), all.end(),
            [](const CodePointRange& a, const CodePointRange& b) { return a.first < b.first; });
  Ranges out = {0};
  for (const CodePointRange& range : all) {
    if (range.first == 0x200C && range.last == 0x200D) continue;
    if (out.size() > 1 && range.first <= out.back() + 1)
      out.back() = std::max<OnigCodePoint>(out.back(), range.last);
    else
      out.insert(out.end(), {range.first, range.last});
  }
  out[0] = static_cast<OnigCodePoint>(out.size() / 2);
  return out;
}

// ICU's, and the ideographs of Unicode 15.1.
Ranges han_characters(std::vector<int8_t> types) {
  for (size_t c = 0; c < kCodePoints; ++c) {
    UErrorCode status = U_ZERO_ERROR;
    if (uscript_getScript(static_cast<UChar32>(c), &status) == USCRIPT_HAN)
      types[c] = U_PRIVATE_USE_CHAR;  // no other one is Han
    else if (types[c] == U_PRIVATE_USE_CHAR)
      types[c] = U_UNASSIGNED;
  }
  std::fill(types.begin() + 0x2EBF0, types.begin() + 0x2EE5D + 1, int8_t{U_PRIVATE_USE_CHAR});
  return ranges_of(types, U_GC_CO_MASK);
}

void define(const char* name, Ranges ranges) {
  // Oniguruma keeps a pointer.
  static std::vector<Ranges>* const kept = new std::vector<Ranges>();
  kept->push_back(std::move(ranges));
  TANDEM_CHECK(onig_unicode_define_user_property(name, kept->back().data()) == ONIG_NORMAL);
}

void define_all() {
  std::array<OnigEncoding, 1> encodings = {ONIG_ENCODING_UTF8};
  TANDEM_CHECK(onig_initialize(encodings.data(), 1) == ONIG_NORMAL);
  onig_set_parse_depth_limit(kMaxNestedGroups);
  const std::vector<int8_t> types = categories();
  // At most 20 are possible.
  static constexpr std::pair<const char*, uint32_t> kNames[] = {
      {"L", U_GC_L_MASK},   {"Lu", U_GC_LU_MASK}, {"Ll", U_GC_LL_MASK},    {"Lm", U_GC_LM_MASK},
      {"Lo", U_GC_LO_MASK}, {"M", U_GC_M_MASK},   {"Mn", U_GC_MN_MASK},    {"Mc", U_GC_MC_MASK},
      {"N", U_GC_N_MASK},   {"Nd", U_GC_ND_MASK}, {"P", U_GC_P_MASK},      {"Po", U_GC_PO_MASK},
      {"S", U_GC_S_MASK},   {"So", U_GC_SO_MASK}, {"Letter", U_GC_L_MASK}, {"Number", U_GC_N_MASK}};
  for (const auto& [name, mask] : kNames) define(name, ranges_of(types, mask));
  define("Han", han_characters(types));
  define(kPunctProperty.data(), ranges_of(types, U_GC_P_MASK | U_GC_S_MASK));
  define(kWordProperty.data(), word_characters(/*in_class=*/false));
  define(kWordInClassProperty.data(), word_characters(/*in_class=*/true));
}

void append_property(std::string_view name, bool has, std::string& out) {
  out.append(has ? "\\p{" : "\\P{").append(name).append("}");
}

// What stands for \`c`.
void append_escape(char c, bool in_class, std::string& out) {
  static const std::string word = "\\p{" + std::string(kWordProperty) + "}";
  const auto between = [&](const char* same, const char* other) {
    out += "(?:(?<=" + word + ")(?" + same + word + ")|(?<!" + word + ")(?" + other + word + "))";
  };
  switch (c) {
    case 'w':
    case 'W':
      return append_property(in_class ? kWordInClassProperty : kWordProperty, c == 'w', out);
    case 'd':
    case 'D': return append_property("Nd", c == 'd', out);
    case 'b':
      if (in_class) break;  // a control character
      return between("!", "=");
    case 'B':
      if (in_class) break;
      return between("=", "!");
    default: break;
  }
  out.append({'\\', c});
}

}  // namespace

void define_pattern_properties() {
  static std::once_flag once;
  std::call_once(once, define_all);
}

std::string spell_properties(const std::string& expression) {
  // Options may say that \w is ASCII's.
  if (expression.find("(?W") != std::string::npos || expression.find("(?P") != std::string::npos)
    return expression;
  const std::string_view text = expression;
  std::string out;
  int depth = 0;     // of character classes
  size_t first = 0;  // where the first member of a class stands
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size()) {
      append_escape(text[++i], depth > 0, out);
      continue;
    }
    const std::string_view rest = text.substr(i);
    if (depth > 0 && rest.starts_with("[:")) {
      const size_t end = std::min(rest.find(":]"), rest.size());
      const std::string_view name = rest.substr(2, end - 2);
      if (name == "punct" || name == "^punct") {
        append_property(kPunctProperty, name == "punct", out);
        i += end + 1;
        continue;
      }
      if (end < rest.size()) {
        out += rest.substr(0, end + 2);
        i += end + 1;
        continue;
      }
    }
    if (text[i] == '[') {
      ++depth;
      first = i + (rest.starts_with("[^") ? 2 : 1);
    } else if (text[i] == ']' && depth > 0 && i != first) {
      --depth;
    }
    out += text[i];
  }
  return out;
}

}  // namespace tandem
