// The rules are those of Nougat's authors, in their order. Expressions are theirs, letter by
// letter.
#include "text/answers/page_markdown.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings/code_points.h"
#include "text/answers/lines.h"
#include "text/answers/page_repetitions.h"
#include "text/answers/python_expression.h"
#include "text/replaced.h"
#include "text/unicode/python_space.h"

namespace tandem {
namespace {

struct PageRule {
  PageRule(std::string_view expression, std::string_view pattern,
           PythonExpression::Lines lines = PythonExpression::Lines::kMany,
           PythonExpression::Dot dot = PythonExpression::Dot::kNoNewline)
      : expression(expression, lines, dot), pattern(pattern) {}
  PythonExpression expression;
  std::string_view pattern;
};

template <size_t n>
std::string after_rules(const std::array<PageRule, n>& rules, std::string text) {
  for (const PageRule& rule : rules) text = rule.expression.sub(text, rule.pattern);
  return text;
}

using Replacement = std::pair<std::string_view, std::string_view>;

template <size_t n>
std::string with_replaced(const Replacement (&replacements)[n], std::string text) {
  for (const auto& [from, to] : replacements) text = replaced(text, from, to);
  return text;
}

constexpr auto kWhole = PythonExpression::Lines::kOne;
constexpr auto kByLines = PythonExpression::Lines::kMany;

std::string without_false_titles(std::string_view text) {
  static const PageRule too_long{R"((?:\n|^)#+ \d*\W? ?(.{100,}))", R"(\n\1)", kWhole};
  static const PageRule empty{R"(^#+ (?:[\d+\.]+|[ixv\.]+)?\s*(?:$|\n\s*))", "", kByLines};
  const std::string titled = too_long.expression.sub(text, too_long.pattern);
  std::string out = replaced(stripped(titled), "\n* [leftmargin=*]\n", "\n");
  out = empty.expression.sub(out, empty.pattern);
  const std::vector<std::string> lines = split_lines(out);
  const std::string& last = lines.back();
  const size_t marks = std::min(last.find_first_not_of('#'), last.size());
  if (marks > 0 && last.substr(marks).starts_with(" ") && lines.size() > 1)
    return joined_lines(lines, 0, lines.size() - 1);
  return out;
}

std::string with_references_and_formulas(std::string text) {
  static const std::array<PageRule, 7> rules = {
      PageRule{R"(^\* \[\d+\](\s?[A-W]\.+\s?){10,}.*$)", ""},
      PageRule{R"(^(\* \[\d+\])\[\](.*)$)", R"(\1\2)"},
      PageRule{R"((^\w\n\n|\n\n\w$))", "", kWhole},
      PageRule{R"(([\s.,()])_([a-zA-Z0-9])__([a-zA-Z0-9]){1,3}_([\s.,:()]))", R"(\1\(\2_{\3}\)\4)"},
      PageRule{R"(([\s.,\d])_([a-zA-Z0-9])_([\s.,\d;]))", R"(\1\(\2\)\3)"},
      PageRule{R"((\nFootnote .*?:) (?:footnotetext|thanks):\W*(.*(?:\n\n|$)))", R"(\1 \2)",
               kWhole},
      PageRule{R"(\[FOOTNOTE:.+?\](.*?)\[ENDFOOTNOTE\])", ""}};
  return after_rules(rules, std::move(text));
}

// How deep an item is, by its number: 1.2.3 is two deep. 0 if it is no number.
size_t depth_of(std::string_view number) {
  const std::u32string all = code_points_of(number);
  const auto is_part = [](char32_t c) {
    return std::u32string_view(U"ixvIXV\u0130\u0131").find(c) != std::u32string_view::npos ||
           u_isdigit(static_cast<UChar32>(c)) != 0;
  };
  size_t at = 0;
  while (at < all.size() && is_part(all[at])) ++at;
  if (at == 0) return 0;
  size_t depth = 0;
  for (; at + 1 < all.size() && all[at] == U'.' && is_part(all[at + 1]); at += 2) ++depth;
  return at == all.size() ? depth : 0;
}

// A line of several items, a line for each; nothing if it is not one.
struct ItemLine {
  char first = 0, mark = 0;  // of the line, and between its items
  static ItemLine of(const std::string& line) {
    if (line.empty() || (line[0] != '-' && line[0] != '*')) return {};
    for (size_t at = 1; at + 2 < line.size(); ++at)
      if (line[at] == ' ' && (line[at + 1] == '-' || line[at + 1] == '*') && line[at + 2] == ' ')
        return {line[0], line[at + 1]};
    return {};
  }
};

std::string split_items(const std::string& line, const ItemLine& form, bool first_line) {
  const std::string mark{form.mark, ' '}, first_mark{form.first, ' '};
  std::string out;
  size_t i = 0;
  for (size_t at = line.find(mark); at != line.npos; ++i) {
    const size_t begin = at + mark.size(), end = line.find(mark, begin);
    const std::string_view item =
        stripped(std::string_view(line).substr(begin, std::min(end, line.size()) - begin));
    at = end;
    const size_t space = item.find(' ');
    if (space == item.npos || space + 1 == item.size()) continue;
    out += i > 0 ? "\n" : "";
    out.append(depth_of(item.substr(0, space)), '\t');
    out.append(i > 0 || first_line ? mark : first_mark).append(item);
  }
  return out;
}

std::string with_items_on_lines(const std::string& text) {
  std::vector<std::string> lines = split_lines(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    const ItemLine form = ItemLine::of(lines[i]);
    if (form.mark == 0) continue;
    lines[i] = split_items(lines[i], form, i == 0);
    if (i + 1 == lines.size()) lines[i] += "\n";
  }
  return joined_lines(lines, 0, lines.size());
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return text.starts_with(start); });
}

// White space that the next page's text needs.
std::string with_end(std::string text) {
  if (text.ends_with('.') || text.ends_with('}')) text += "\n\n";
  const std::string_view one = text.ends_with('\n')
                                   ? std::string_view(text).substr(0, text.size() - 1)
                                   : std::string_view(text);
  const auto is_end = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == ',' || c == ';' || c == ':';
  };
  if (one.size() == 1 && is_end(one[0])) return text + " ";
  if (starts_with_any(text, {"#", "**", "\\begin"})) return "\n\n" + text;
  const size_t last = text.rfind('\n');
  const std::string_view line = std::string_view(text).substr(last == text.npos ? 0 : last + 1);
  if (starts_with_any(line, {"#", "Figure", "Table"})) return text + "\n\n";
  return text + " ";
}

size_t occurrences(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) ++count;
  return count;
}

std::string with_correct_tables(std::string text) {
  for (const std::string& line : split_lines(text))
    if (occurrences(line, "\\begin{tabular}") > 15 || occurrences(line, "\\multicolumn") > 60 ||
        occurrences(line, "&") > 400)
      text = replaced(text, line, "");
  static constexpr Replacement kBreaks[] = {
      {"\\begin{table} \\begin{tabular}", "\\begin{table}\n\\begin{tabular}"},
      {"\\end{tabular} \\end{table}", "\\end{tabular}\n\\end{table}"},
      {"\\end{table} Tab", "\\end{table}\nTab"}};
  static constexpr Replacement kEmpty[] = {{"\\begin{tabular}{l l}  & \\\\ \\end{tabular}", ""},
                                           {"\\begin{tabular}{}\n\n\\end{tabular}", ""}};
  static const PageRule inside{R"((^.+)\\begin{tab)", R"(\1\n\\begin{tab)"};
  text = with_replaced(kBreaks, std::move(text));
  text = with_replaced(kEmpty, inside.expression.sub(text, inside.pattern));
  static const std::array<PageRule, 5> rules = {
      PageRule{R"(\\begin{tabular}{([clr ]){2,}}\s*[& ]*\s*(\\\\)? \\end{tabular})", ""},
      PageRule{R"((\*\*S\. A\. B\.\*\*\n+){2,})", ""}, PageRule{R"(^#+( [\[\d\w])?$)", ""},
      PageRule{R"(^\.\s*$)", ""}, PageRule{R"(\n{3,})", R"(\n\n)"}};
  return after_rules(rules, replaced(text, "\\begin{array}[]{", "\\begin{array}{"));
}

// markdown_compatible()
std::string with_markdown_formulas(std::string text) {
  static const std::array<PageRule, 3> tags = {
      PageRule{R"(^\(([\d.]+[a-zA-Z]?)\) \\\[(.+?)\\\]$)", R"(\[\2 \\tag{\1}\])"},
      PageRule{R"(^\\\[(.+?)\\\] \(([\d.]+[a-zA-Z]?)\)$)", R"(\[\1 \\tag{\2}\])"},
      PageRule{R"(^\\\[(.+?)\\\] \(([\d.]+[a-zA-Z]?)\) (\\\[.+?\\\])$)", R"(\[\1 \\tag{\2}\] \3)"}};
  static constexpr Replacement kBold[] = {
      {"\\. ", ". "}, {"\\bm{", "\\mathbf{"}, {"{\\\\bm ", "\\mathbf{"}};
  static const std::array<PageRule, 3> rules = {
      PageRule{R"(\\mbox{ ?\\boldmath\$(.*?)\$})", R"(\\mathbf{\1})"},
      PageRule{R"(((?:http|ftp|https):\/\/(?:[\w_-]+(?:(?:\.[\w_-]+)+)))"
               R"((?:[\w.,@?^=%&:\/~+#-]*[\w@?^=%&\/~+#-])))",
               R"([\1](\1))"},
      PageRule{R"(```\s*(.+?)\s*```)", R"(```\n\1\n```)", kWhole, PythonExpression::Dot::kAny}};
  return after_rules(rules, with_replaced(kBold, after_rules(tags, std::move(text))));
}

}  // namespace

std::string page_markdown(std::string_view text) {
  std::string out = without_made_up_references(without_repeated_end(without_false_titles(text)));
  out = with_items_on_lines(with_references_and_formulas(std::move(out)));
  return with_markdown_formulas(with_correct_tables(with_end(std::move(out))));
}

}  // namespace tandem
