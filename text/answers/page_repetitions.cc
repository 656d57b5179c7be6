// Repetitions at the end, and in lists of references. Indices, and what happens at their limits,
// are those of the Python code.
#include "text/answers/page_repetitions.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings/code_points.h"
#include "text/answers/indel_ratio.h"
#include "text/answers/lines.h"
#include "text/answers/python_expression.h"
#include "text/replaced.h"
#include "text/unicode/letter_case.h"
#include "text/unicode/python_space.h"

namespace tandem {
namespace {

constexpr size_t kLeastRepetition = 30;  // characters

// The longest end of at least that many characters, less than half of the text, that the text
// before it ends with, too; 0: none.
size_t repeated_end(std::u32string_view text) {
  // z[i]: how many characters of the reversed text its rest from i on begins with.
  const std::u32string reversed(text.rbegin(), text.rend());
  std::vector<size_t> z(text.size(), 0);
  size_t best = 0;
  for (size_t i = 1, left = 0, right = 0; i < text.size(); ++i) {
    if (i < right) z[i] = std::min(right - i, z[i - left]);
    while (i + z[i] < text.size() && reversed[z[i]] == reversed[i + z[i]]) ++z[i];
    if (i + z[i] > right) left = i, right = i + z[i];
    if (i >= kLeastRepetition && i < text.size() / 2 && z[i] >= i) best = i;
  }
  return best;
}

std::optional<size_t> next_end_of_sentence(std::u32string_view text, size_t from) {
  const size_t at = text.find_first_of(U".?!\n", from);
  return at == text.npos ? std::nullopt : std::optional(at);
}

// How many characters are kept, of a text (in lower case) that ends with `tail`.
size_t end_of_first_time(std::u32string_view text, size_t kept) {
  const std::u32string reversed(text.rbegin(), text.rend());
  const std::u32string_view tail = text.substr(kept);
  while (true) {
    const auto end = next_end_of_sentence(text, kept);
    const auto start = next_end_of_sentence(reversed, kept);
    if (end.value_or(0) == 0 || start.value_or(0) == 0) return kept;
    const std::u32string_view sentence =
        *start < *end ? text.substr(*start, *end - *start) : std::u32string_view();
    kept = *end + 1;
    if (tail.find(sentence) != tail.npos) return kept;
  }
}

// remove_numbers()
std::string without_numbers(std::string_view line) {
  static const PythonExpression numbers(R"((?:[\d_]|\*\*))");
  return std::string(stripped(numbers.sub(line, "")));
}

struct Lines {
  explicit Lines(const std::string& text) : all(split_lines(text)) {
    for (const std::string& line : all) clean.push_back(code_points_of(without_numbers(line)));
  }
  std::vector<std::string> all;
  std::vector<std::u32string> clean;  // without numbers
};

bool may_be_repeated(const std::u32string& line) { return line.size() > 3 && line.size() < 200; }

struct LineRange {
  size_t begin, end;
};

// get_slices(): more than 15 lines, of which each is like the next one.
std::vector<LineRange> repeated_lines(const Lines& lines) {
  const auto& clean = lines.clean;
  std::vector<bool> repeated(clean.size(), false);
  for (size_t i = 0; i + 1 < clean.size(); ++i) {
    size_t j = i + 1;
    while (clean[j].empty() && j + 1 < clean.size()) ++j;
    if (may_be_repeated(clean[i]) && may_be_repeated(clean[j]) &&
        !clean[i].starts_with(U"[MISSING_PAGE") &&
        (clean[i] == clean[j] || indel_ratio(clean[i], clean[j]) > 0.9))
      std::fill(repeated.begin() + static_cast<std::ptrdiff_t>(i),
                repeated.begin() + static_cast<std::ptrdiff_t>(j), true);
  }
  std::vector<LineRange> out;
  size_t last = 0;
  for (size_t i = 0; i < repeated.size(); ++i) {
    if (!repeated[i]) continue;
    if (out.empty() || i - last > 3) out.push_back({i, 0});
    out.back().end = i + 2;
    last = i;
  }
  std::erase_if(out, [](const LineRange& range) { return range.end - range.begin <= 15; });
  return out;
}

std::string behind(const std::string& text, std::string_view mark) {
  const size_t at = text.find(mark);
  return at == text.npos ? "" : text.substr(at + mark.size());
}

bool is_like(const std::u32string& base, std::string_view line) {
  return !(indel_ratio(base, code_points_of(without_numbers(line))) < 0.9);
}

// Looks at a few lines before `section`. Returns whether a line that is another one was found.
bool find_begin(const Lines& lines, const std::u32string& base, LineRange& section) {
  const size_t first = section.begin;
  const size_t from = first > 1 ? first - 1 : 0, to = first > 5 ? first - 5 : 0;
  for (size_t i = from; i > to; --i) {
    const std::string& line = lines.all[i];
    if (line.empty()) continue;
    if (line == "## References") {
      section.begin = i;
      return false;
    }
    if (is_like(base, line)) continue;
    section.begin = i + 1;
    const std::u32string reference =
        code_points_of(without_numbers(behind(lines.all[i - 1], "* [")));
    if (static_cast<double>(reference.size()) >= 0.75 * static_cast<double>(base.size()) &&
        indel_ratio(base, reference) < 0.9)
      section.begin = i;
    return true;
  }
  return false;
}

// How many characters of the last line are not those of the line before, numbers aside; nothing if
// the line before has only numbers.
std::optional<size_t> other_characters(const std::string& before, const std::string& last) {
  const std::u32string a = code_points_of(before), b = code_points_of(last);
  const auto is_number = [](char32_t c) {
    return u_getNumericValue(static_cast<UChar32>(c)) != U_NO_NUMERIC_VALUE;
  };
  std::optional<size_t> at;  // in b
  for (size_t i = 0, j = 0;; ++i, ++j) {
    while (i < a.size() && is_number(a[i])) ++i;
    if (i == a.size()) break;
    for (; j < b.size(); ++j) {
      at = j;
      if (!is_number(b[j])) break;
    }
    if (j >= b.size() || a[i] != b[j]) break;
  }
  if (!at) return std::nullopt;
  return b.size() - *at - 1;
}

// remove_slice_from_lines(): the text that is to go.
std::string made_up_part(const Lines& lines, const LineRange& repeated) {
  const std::u32string& base = lines.clean[repeated.begin];
  LineRange section = repeated;
  const bool other_before = find_begin(lines, base, section);
  const size_t count = lines.all.size();
  for (size_t i = std::min(count, repeated.end); i < std::min(count, repeated.end + 5); ++i) {
    if (is_like(base, lines.all[i])) continue;
    section.end = i;
    break;
  }
  section.end = std::min(section.end, count - 1);
  std::string out = joined_lines(lines.all, section.begin, section.end + 1);
  const auto other = other_characters(lines.all[section.end - 1], lines.all[section.end]);
  constexpr std::string_view kReference = "* [";
  if (other_before && out.find(kReference) != out.npos)
    out = std::string(kReference) + behind(out, kReference);
  if (other && *other > 0) {
    const std::u32string characters = code_points_of(out);
    out = utf8_of(std::u32string_view(characters)
                      .substr(0, characters.size() - std::min(*other, characters.size())));
  }
  return std::string(stripped(out));
}

}  // namespace

std::string without_repeated_end(const std::string& text) {
  const std::u32string lower = code_points_of(lower_case(text));
  if (lower.size() < 2 * kLeastRepetition) return text;
  const size_t length = repeated_end(lower);
  if (length == 0) return text;
  const std::u32string_view all = lower, end = all.substr(all.size() - length);
  size_t kept = all.size();
  while (all.substr(0, kept).ends_with(end)) kept -= length;
  const std::u32string characters = code_points_of(text);
  return utf8_of(std::u32string_view(characters).substr(0, end_of_first_time(all, kept)));
}

std::string without_made_up_references(std::string text) {
  static const PythonExpression after_title(R"(## References\n+\[MISSING_PAGE_POST(:\d+)?\])");
  const Lines lines(text);
  std::vector<std::string> parts;
  for (const LineRange& range : repeated_lines(lines)) parts.push_back(made_up_part(lines, range));
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    text = replaced(text, *part, "\n\n[MISSING_PAGE_POST]\n\n");
  return after_title.sub(text, "\n\n[MISSING_PAGE_POST\\1]");
}

}  // namespace tandem
