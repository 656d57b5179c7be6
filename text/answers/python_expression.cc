// Python's expressions in Oniguruma's words: both look for the first match from the left, and try
// alternatives in the same order.
#include "text/answers/python_expression.h"

#include <oniguruma.h>

#include "base/check.h"
#include "base/error.h"
#include "text/pipeline/pattern_properties.h"

namespace tandem {
namespace {

constexpr unsigned long kMaxRetries = 10'000'000;  // of a search, and of a match in it

constexpr std::string_view kPythonWord = "\\p{L}\\p{N}_",
                           kPythonSpace =
                               "\\x09-\\x0d\\x1c-\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"
                               "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

void append_class(std::string_view members, bool negated, bool in_class, std::string& out) {
  TANDEM_CHECK(!(negated && in_class));
  if (in_class)
    out += members;
  else
    out.append(negated ? "[^" : "[").append(members).append("]");
}

std::string spell_python(std::string_view text, bool many_lines, bool any_dot) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\') {
      const char next = text[++i];
      if (next == 'w' || next == 'W')
        append_class(kPythonWord, next == 'W', in_class, out);
      else if (next == 's')
        append_class(kPythonSpace, false, in_class, out);
      else if (next == 'd')
        append_class("\\p{Nd}", false, in_class, out);
      else
        out.append({'\\', next});
    } else if (in_class) {
      in_class = c != ']';
      out += c;
    } else if (c == '[') {
      in_class = true;
      out += c;
      if (text.substr(i).starts_with("[^")) out += text[++i];
    } else if (c == '^') {
      out += many_lines ? "(?<![^\\n])" : "\\A";
    } else if (c == '$') {
      out += many_lines ? "(?![^\\n])" : "\\Z";
    } else if (c == '.' && any_dot) {
      out += "(?m:.)";
    } else {
      out += c;
    }
  }
  return out;
}

const UChar* start_of(std::string_view text) { return reinterpret_cast<const UChar*>(text.data()); }

struct FreeMatch {
  void operator()(OnigRegion* region) const { onig_region_free(region, /*free_self=*/1); }
  void operator()(OnigMatchParam* params) const { onig_free_match_param(params); }
};

void append_expanded(std::string_view pattern, std::string_view text, const OnigRegion& match,
                     std::string& out) {
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '\\' || i + 1 == pattern.size()) {
      out += pattern[i];
      continue;
    }
    const char next = pattern[++i];
    if (next >= '1' && next <= '9') {
      const int group = next - '0';
      TANDEM_CHECK(group < match.num_regs);
      if (match.beg[group] >= 0)
        out += text.substr(static_cast<size_t>(match.beg[group]),
                           static_cast<size_t>(match.end[group] - match.beg[group]));
    } else if (next == 'n') {
      out += '\n';
    } else if (next == '\\') {
      out += '\\';
    } else {
      out.append({'\\', next});
    }
  }
}

}  // namespace

void PythonExpression::FreeRegex::operator()(re_pattern_buffer* regex) const { onig_free(regex); }

PythonExpression::PythonExpression(std::string_view expression, Lines lines, Dot dot) {
  define_pattern_properties();
  const std::string spelt = spell_python(expression, lines == Lines::kMany, dot == Dot::kAny);
  regex_t* regex = nullptr;
  OnigErrorInfo info{};
  const int rc =
      onig_new(&regex, start_of(spelt), start_of(spelt) + spelt.size(), ONIG_OPTION_CAPTURE_GROUP,
               ONIG_ENCODING_UTF8, ONIG_SYNTAX_ONIGURUMA, &info);
  TANDEM_CHECK_EQ(rc, ONIG_NORMAL);
  regex_.reset(regex);
}

std::string PythonExpression::sub(std::string_view text, std::string_view pattern) const {
  const std::unique_ptr<OnigRegion, FreeMatch> region(onig_region_new());
  const std::unique_ptr<OnigMatchParam, FreeMatch> params(onig_new_match_param());
  TANDEM_CHECK(region && params, "out of memory");
  onig_initialize_match_param(params.get());
  onig_set_retry_limit_in_match_of_match_param(params.get(), kMaxRetries);
  onig_set_retry_limit_in_search_of_match_param(params.get(), kMaxRetries);
  const UChar *begin = start_of(text), *end = begin + text.size();
  std::string out;
  size_t done = 0;
  while (done < text.size()) {
    onig_region_clear(region.get());
    const int rc = onig_search_with_param(regex_.get(), begin, end, begin + done, end, region.get(),
                                          ONIG_OPTION_NONE, params.get());
    if (rc == ONIG_MISMATCH) break;
    if (rc < 0)
      throw InputError(ErrorKind::kResource, "a rule for the text of an answer takes too long");
    const auto from = static_cast<size_t>(region->beg[0]), to = static_cast<size_t>(region->end[0]);
    TANDEM_CHECK(from < to, "an expression matches nothing");
    out += text.substr(done, from - done);
    append_expanded(pattern, text, *region, out);
    done = to;
  }
  return out.append(text.substr(done));
}

}  // namespace tandem
