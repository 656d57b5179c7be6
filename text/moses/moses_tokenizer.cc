#include "text/moses/moses_tokenizer.h"

#include <algorithm>

#include "base/strings/code_points.h"
#include "text/moses/moses_characters.h"
#include "text/unicode/python_space.h"

namespace tandem::moses {
namespace {

using Text = std::u32string;
using View = std::u32string_view;

// Runs of white space as one space, without those at the ends.
Text joined_spaces(View text) {
  Text out;
  for (const char32_t c : text)
    if (!is_python_space(c))
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  if (out.ends_with(U' ')) out.pop_back();
  return out;
}

Text spaced_out(View text) {
  Text out;
  for (const char32_t c : text) {
    const bool stays = is_alnum(c) || is_python_space(c) || View(U".'`,-").find(c) != View::npos;
    if (stays)
      out += c;
    else
      (out += ' ').append(1, c).append(1, ' ');
  }
  return out;
}

Text split_hyphens(View text) {
  Text out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool splits = text[i] == '-' && i > 0 && i + 1 < text.size() && is_alnum(text[i - 1]) &&
                        is_alnum(text[i + 1]);
    splits ? out += U" @-@ " : out += text[i];
  }
  return out;
}

// Several dots, as letters until the single ones are dealt with.
Text hide_dots(View text) {
  Text out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && text[end] == '.') ++end;
    if (end < i + 2) {
      out += text[i++];
      continue;
    }
    out += ' ';
    for (; i < end; ++i) out += U"DOT";
    out += U"MULTI";
    if (end < text.size()) out += ' ';
  }
  return out;
}

Text show_dots(View text) {
  constexpr View kDot = U"DOT", kEnd = U"MULTI";
  Text out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i, dots = 0;
    for (; text.substr(end).starts_with(kDot); end += kDot.size()) ++dots;
    if (dots > 0 && text.substr(end).starts_with(kEnd)) {
      out.append(dots, '.');
      i = end + kEnd.size();
    } else {
      end = std::max(end, i + 1);
      out.append(text, i, end - i);
      i = end;
    }
  }
  return out;
}

// Puts spaces around commas that are not between numbers.
Text split_commas(View text) {
  Text first;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!is_number(text[i]) && i + 1 < text.size() && text[i + 1] == ',') {
      first.append(1, text[i]).append(U" , ");
      ++i;
    } else {
      first += text[i];
    }
  }
  Text out;
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i] == ',' && i + 1 < first.size() && !is_number(first[i + 1])) {
      out.append(U" , ").append(1, first[i + 1]);
      ++i;
    } else {
      out += first[i];
    }
  }
  if (out.size() > 1 && out.back() == ',' && is_number(out[out.size() - 2])) {
    out.pop_back();
    out += U" , ";
  }
  return out;
}

// An apostrophe between two such characters becomes `with`. A character belongs to one match.
template <class Before, class Behind>
void replace_apostrophes(Text& text, const Before& before, const Behind& behind, View with) {
  Text out;
  for (size_t i = 0; i < text.size();) {
    if (i + 2 < text.size() && text[i + 1] == '\'' && before(text[i]) && behind(text[i + 2])) {
      out.append(1, text[i]).append(with).append(1, text[i + 2]);
      i += 3;
    } else {
      out += text[i++];
    }
  }
  text = out;
}

void split_apostrophes(Text& text, std::string_view language) {
  const auto any_but_alpha = [](char32_t c) { return !is_alpha(c); };
  if (language != "en") {
    Text out;
    for (const char32_t c : text) c == '\'' ? out += U" ' " : out += c;
    text = out;
    return;
  }
  const auto neither = [](char32_t c) { return !is_alpha(c) && !is_number(c); };
  replace_apostrophes(text, any_but_alpha, any_but_alpha, U" ' ");
  replace_apostrophes(text, neither, is_alpha, U" ' ");
  replace_apostrophes(text, is_alpha, any_but_alpha, U" ' ");
  replace_apostrophes(text, is_alpha, is_alpha, U" '");
  replace_apostrophes(
      text, is_number, [](char32_t c) { return c == 's'; }, U" '");
}

std::vector<View> words_of(View text) {
  std::vector<View> out;
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && !is_python_space(text[end])) ++end;
    if (end > i) out.push_back(text.substr(i, end - i));
    i = end + 1;
  }
  return out;
}

// Whether the word before a dot keeps it. `next`: the word behind; empty: none.
bool keeps_dot_there(View word, View next, std::string_view language) {
  const std::string as_utf8 = utf8_of(word);
  const bool letters_and_dots =
      word.find(U'.') != View::npos && std::any_of(word.begin(), word.end(), is_alpha);
  if (letters_and_dots || keeps_dot(language, as_utf8)) return true;
  if (!next.empty() && is_lower(next.front())) return true;
  return !next.empty() && next.front() >= '0' && next.front() <= '9' &&
         keeps_dot_before_numbers(language, as_utf8);
}

Text split_last_dots(View text, std::string_view language) {
  const std::vector<View> words = words_of(text);
  Text out;
  for (size_t i = 0; i < words.size(); ++i) {
    const View word = words[i];
    if (i > 0) out += ' ';
    out += word;
    if (word.size() < 2 || word.back() != '.') continue;
    const View next = i + 1 < words.size() ? words[i + 1] : View();
    if (keeps_dot_there(word.substr(0, word.size() - 1), next, language)) continue;
    out.pop_back();
    out += U" .";
  }
  return out;
}

void append_escaped(View text, std::string& out) {
  for (const char32_t c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '|': out += "&#124;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&apos;"; break;
      case '"': out += "&quot;"; break;
      case '[': out += "&#91;"; break;
      case ']': out += "&#93;"; break;
      default: out += utf8_of(View(&c, 1));
    }
}

}  // namespace

std::vector<std::string> tokenize(Text text, std::string_view language) {
  for (char32_t& c : text)  // white space first, since it has control characters
    if (is_python_space(c)) c = ' ';
  std::erase_if(text, [](char32_t c) { return c < ' '; });
  text = spaced_out(joined_spaces(text));
  text = split_commas(hide_dots(split_hyphens(text)));
  split_apostrophes(text, language);
  text = split_last_dots(text, language);
  if (text.ends_with(U".'")) text.replace(text.size() - 2, 2, U" . ' ");
  text = show_dots(text);
  std::vector<std::string> out;
  for (const View word : words_of(text)) append_escaped(word, out.emplace_back());
  return out;
}

}  // namespace tandem::moses
