#include "text/moses/moses_normalizer.h"

#include <unicode/uchar.h>

#include <algorithm>

#include "base/strings/code_points.h"
#include "text/moses/moses_characters.h"
#include "text/unicode/python_space.h"

namespace tandem::moses {
namespace {

using Text = std::u32string;
using View = std::u32string_view;

constexpr char32_t kHardSpace = 0xA0;

struct Replacement {
  View from, to;
};

// From left to right; what was put in is not looked at again.
void replace(Text& text, View from, View to) {
  size_t at = text.find(from);
  if (at == Text::npos) return;
  Text out;
  size_t begin = 0;
  for (; at != Text::npos; begin = at + from.size(), at = text.find(from, begin))
    out.append(text, begin, at - begin).append(to);
  text = out.append(text, begin);
}

void replace_all(Text& text, std::initializer_list<Replacement> list) {
  for (const auto& [from, to] : list) replace(text, from, to);
}

// `from` and white space behind it.
void replace_with_space(Text& text, char32_t from, View to) {
  Text out;
  for (size_t i = 0; i < text.size();) {
    if (text[i] != from) {
      out += text[i++];
      continue;
    }
    out += to;
    while (++i < text.size() && is_python_space(text[i])) {
    }
  }
  text = out;
}

void join_spaces(Text& text) {
  const auto both = [](char32_t a, char32_t b) { return a == ' ' && b == ' '; };
  text.erase(std::unique(text.begin(), text.end(), both), text.end());
}

void plain_punctuation(Text& text) {
  replace(text, U"，", U",");
  replace_with_space(text, U'。', U". ");
  replace_all(text, {{U"、", U","},
                     {U"”", U"\""},
                     {U"“", U"\""},
                     {U"∶", U":"},
                     {U"：", U":"},
                     {U"？", U"?"},
                     {U"《", U"\""},
                     {U"》", U"\""},
                     {U"）", U")"},
                     {U"！", U"!"},
                     {U"（", U"("},
                     {U"；", U";"},
                     {U"」", U"\""},
                     {U"「", U"\""}});
  for (char32_t& c : text)
    if (c >= 0xFF10 && c <= 0xFF19) c = c - 0xFF10 + '0';
  replace_with_space(text, U'．', U". ");
  replace_all(text, {{U"～", U"~"},
                     {U"’", U"'"},
                     {U"…", U"..."},
                     {U"━", U"-"},
                     {U"〈", U"<"},
                     {U"〉", U">"},
                     {U"【", U"["},
                     {U"】", U"]"},
                     {U"％", U"%"}});
}

bool is_digit(char32_t c) { return u_charType(static_cast<UChar32>(c)) == U_DECIMAL_DIGIT_NUMBER; }

// ") ." and "5 %": the space goes.
void tighten(Text& text) {
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool bracket = text[i] == ')' && i + 2 < text.size() && text[i + 1] == ' ' &&
                         View(U".!:?;,").find(text[i + 2]) != View::npos;
    out += text[i];
    if (bracket) ++i;
  }
  text = out;
  replace_all(text, {{U"( ", U"("}, {U" )", U")"}});
  out.clear();
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (is_digit(text[i]) && i + 2 < text.size() && text[i + 1] == ' ' && text[i + 2] == '%') ++i;
  }
  text = out;
}

// A quote in front of commas and dots goes behind them.
void quote_behind_commas(Text& text) {
  Text out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (text[i] == '"')
      while (end < text.size() && (text[end] == ',' || text[end] == '.')) ++end;
    if (end > i + 1) {
      out.append(text, i + 1, end - i - 1);
      out += '"';
    } else {
      out += text[i];
    }
    i = end;
  }
  text = out;
}

// A quote behind dots goes in front of them, unless the text ends there or a '<' follows at once.
void quote_before_dots(Text& text) {
  Text out;
  for (size_t i = 0; i < text.size();) {
    size_t dots = i;
    while (dots < text.size() && text[dots] == '.') ++dots;
    const bool matches =
        dots > i && dots + 1 < text.size() && text[dots] == '"' && text[dots + 1] != '<';
    if (!matches) {
      const size_t end = std::max(dots, i + 1);
      out.append(text, i, end - i);
      i = end;
      continue;
    }
    size_t end = dots + 1;
    while (end < text.size() && is_python_space(text[end])) ++end;
    if (end < text.size() && text[end] != '<') ++end;  // a part of the match
    out += '"';
    out.append(text, i, dots - i).append(text, dots + 1, end - dots - 1);
    i = end;
  }
  text = out;
}

// A hard space between digits is a mark between thousands.
void mark_thousands(Text& text, char32_t mark) {
  for (size_t i = 0; i + 2 < text.size(); ++i) {
    if (!is_digit(text[i]) || text[i + 1] != kHardSpace || !is_digit(text[i + 2])) continue;
    text[i + 1] = mark;
    i += 2;
  }
}

void normalize_punctuation(Text& text, std::string_view language) {
  replace_all(text, {{U"\r", U""}, {U"(", U" ("}, {U")", U") "}});
  join_spaces(text);
  tighten(text);
  replace_all(text, {{U" :", U":"},
                     {U" ;", U";"},
                     {U"`", U"'"},
                     {U"''", U" \" "},
                     {U"„", U"\""},
                     {U"“", U"\""},
                     {U"”", U"\""},
                     {U"–", U"-"},
                     {U"—", U" - "}});
  join_spaces(text);
  replace_all(
      text,
      {{U"´", U"'"}, {U"‘", U"'"}, {U"‚", U"'"}, {U"’", U"'"}, {U"''", U"\""}, {U"…", U"..."}});
  replace_all(text, {{U"\u00A0«\u00A0", U"\""},
                     {U"«\u00A0", U"\""},
                     {U"«", U"\""},
                     {U"\u00A0»\u00A0", U"\""},
                     {U"\u00A0»", U"\""},
                     {U"»", U"\""}});
  replace_all(text, {{U"\u00A0%", U"%"},
                     {U"nº\u00A0", U"nº "},
                     {U"\u00A0:", U":"},
                     {U"\u00A0ºC", U" ºC"},
                     {U"\u00A0cm", U" cm"},
                     {U"\u00A0?", U"?"},
                     {U"\u00A0!", U"!"},
                     {U"\u00A0;", U";"},
                     {U",\u00A0", U", "}});
  join_spaces(text);
  if (language == "en") quote_behind_commas(text);
  if (language == "de") {
    replace(text, U",\"", U"\",");
    quote_before_dots(text);
  }
  mark_thousands(text, language == "de" ? ',' : '.');
}

bool is_non_printing(char32_t c) {
  switch (u_charType(static_cast<UChar32>(c))) {
    case U_CONTROL_CHAR:
    case U_FORMAT_CHAR:
    case U_PRIVATE_USE_CHAR:
    case U_SURROGATE:
    case U_UNASSIGNED: return true;
    default: return false;
  }
}

}  // namespace

Text normalize(std::string_view text, std::string_view language) {
  Text out = code_points_of(text);
  plain_punctuation(out);
  normalize_punctuation(out, language);
  while (!out.empty() && is_python_space(out.back())) out.pop_back();
  out.erase(out.begin(), std::find_if_not(out.begin(), out.end(), is_python_space));
  std::erase_if(out, is_non_printing);
  return out;
}

}  // namespace tandem::moses
