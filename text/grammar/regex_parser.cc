#include "text/grammar/regex_parser.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings/code_points.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "text/grammar/character_sets.h"
#include "text/grammar/grammar_error.h"

namespace tandem {
namespace {

constexpr char32_t kEnd = 0xffffffff;

std::string shown(char32_t c) {
  std::string text;
  append_utf8(c, text);
  return in_quotes(text);
}

int digit_of(char32_t c) {
  if (c >= U'0' && c <= U'9') return static_cast<int>(c - U'0');
  if (c >= U'a' && c <= U'f') return static_cast<int>(c - U'a') + 10;
  if (c >= U'A' && c <= U'F') return static_cast<int>(c - U'A') + 10;
  return -1;
}

class RegexParser {
 public:
  RegexParser(std::string_view text, Grammar& grammar, const RegexOptions& options)
      : text_(code_points_of(text)), grammar_(grammar), options_(options) {}

  Grammar::Ref parse() {
    const Grammar::Ref all = alternatives(0, /*whole=*/true);
    if (peek() == U')') fail("a bracket is closed that was not opened");
    return all;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw wrong_grammar("at character " + std::to_string(at_ + 1) + ": " + what);
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw unsupported_grammar("at character " + std::to_string(at_ + 1) + ": " + what +
                              " is not supported");
  }

  char32_t peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : kEnd;
  }
  bool skip(std::u32string_view what) {
    if (text_.compare(at_, what.size(), what) != 0) return false;
    at_ += what.size();
    return true;
  }

  // whole: nothing stands beside it, so that ^ and $ may.
  Grammar::Ref alternatives(int depth, bool whole) {
    if (depth > kMaxGrammarDepth) throw grammar_explodes("brackets more than 200 deep");
    std::vector<Grammar::Ref> all{sequence(depth, whole)};
    while (skip(U"|")) all.push_back(sequence(depth, whole));
    return grammar_.alternatives(std::move(all));
  }

  bool ends_sequence() const { return peek() == kEnd || peek() == U'|' || peek() == U')'; }

  // (...), and nothing else up to the next | or the end.
  bool is_one_group() const {
    if (peek() != U'(') return false;
    int open = 0;
    for (size_t i = at_; i < text_.size(); ++i) {
      switch (text_[i]) {
        case U'\\': ++i; break;
        case U'[': i = end_of_class(i); break;
        case U'(': ++open; break;
        case U')':
          if (--open == 0)
            return i + 1 == text_.size() || text_[i + 1] == U'|' || text_[i + 1] == U')';
          break;
        default: break;
      }
    }
    return false;
  }
  size_t end_of_class(size_t i) const {
    if (i + 1 < text_.size() && text_[++i] == U'^') ++i;
    if (i < text_.size() && text_[i] == U']') ++i;
    for (; i < text_.size() && text_[i] != U']'; ++i)
      if (text_[i] == U'\\') ++i;
    return i;
  }

  // (?i) and others before ^ hold from there on.
  bool skip_flags() {
    if (peek() != U'(' || peek(1) != U'?') return false;
    const size_t end = text_.find_first_not_of(U"isu-", at_ + 2);
    if (end == at_ + 2 || end == std::u32string::npos || text_[end] != U')') return false;
    at_ += 2;
    return take_flags();
  }

  Grammar::Ref sequence(int depth, bool whole) {
    std::vector<Grammar::Ref> parts;
    bool begins = !whole || options_.around < 0, ends = begins;
    while (skip(U"^") || skip(U"\\A") || (whole && skip_flags())) {
      if (!whole) refuse("^ inside the expression");
      begins = begins || text_[at_ - 1] != U')';
    }
    if (whole && !(begins && options_.around >= 0) && is_one_group())
      return group(depth, /*whole=*/true);
    while (!ends_sequence()) {
      if (peek() == U'$' || (peek() == U'\\' && (peek(1) == U'Z' || peek(1) == U'z'))) {
        at_ += peek() == U'$' ? 1 : 2;
        if (!whole || !ends_sequence()) refuse("$ inside the expression");
        ends = true;
        continue;
      }
      parts.push_back(repeated(depth));
    }
    if (!begins) parts.insert(parts.begin(), options_.around);
    if (!ends) parts.push_back(options_.around);
    return grammar_.sequence(std::move(parts));
  }

  Grammar::Ref repeated(int depth) {
    Grammar::Ref part = atom(depth);
    while (true) {
      int64_t least = 0;
      std::optional<int64_t> most;
      if (skip(U"*")) {
      } else if (skip(U"+")) {
        least = 1;
      } else if (skip(U"?")) {
        most = 1;
      } else if (!take_count(least, most)) {
        return part;
      }
      if (peek() == U'+') refuse("possessive repetition");
      skip(U"?");  // which text is found first makes no difference
      part = grammar_.repeat(part, least, most);
    }
  }

  // {2}, {2,}, {,2} or {2,3}; anything else in braces stands for itself.
  bool take_count(int64_t& least, std::optional<int64_t>& most) {
    const size_t before = at_;
    if (!skip(U"{")) return false;
    const auto lo = number();
    const bool range = skip(U",");
    const auto hi = range ? number() : lo;
    if ((!lo && !hi) || !skip(U"}")) {
      at_ = before;
      return false;
    }
    least = lo.value_or(0);
    most = hi;
    if (most && *most < least) fail("the count falls");
    if (std::max(least, most.value_or(0)) > kMaxRepeats)
      throw grammar_explodes("a count above " + std::to_string(kMaxRepeats));
    return true;
  }

  std::optional<int64_t> number() {
    std::optional<int64_t> value;
    for (; peek() >= U'0' && peek() <= U'9'; ++at_)
      value = std::min<int64_t>(value.value_or(0) * 10 + digit_of(peek()), kMaxRepeats + 1);
    return value;
  }

  Grammar::Ref atom(int depth) {
    const char32_t c = peek();
    const size_t before = at_;
    switch (c) {
      case U'*':
      case U'+':
      case U'?': fail("there is nothing to repeat");
      case U'^': refuse("^ inside the expression");
      case U'(': return group(depth, /*whole=*/false);
      case U'[': ++at_; return write(character_set());
      case U'\\': return write(escape(/*in_set=*/false));
      case U'.': {
        ++at_;
        icu::UnicodeSet any(all_characters());
        if (!dot_is_all_) any.remove(static_cast<UChar32>(U'\n'));
        return write(std::move(any));
      }
      case U'{': {
        int64_t least = 0;
        std::optional<int64_t> most;
        if (!take_count(least, most)) break;
        at_ = before;
        fail("there is nothing to repeat");
      }
      default: break;
    }
    ++at_;
    return write(icu::UnicodeSet(static_cast<UChar32>(c), static_cast<UChar32>(c)));
  }

  Grammar::Ref group(int depth, bool whole) {
    const size_t opened = ++at_;
    const bool dot = dot_is_all_, cases = ignores_case_;
    bool flags_for_all = false;
    if (skip(U"?")) {
      if (skip(U"P<") || (peek() == U'<' && peek(1) != U'=' && peek(1) != U'!' && skip(U"<"))) {
        while (peek() != U'>' && peek() != kEnd) ++at_;
        if (!skip(U">")) fail("a group's name has no end");
      } else {
        flags_for_all = take_flags();
      }
    }
    if (flags_for_all) return grammar_.nothing();
    const Grammar::Ref inside = alternatives(depth + 1, whole);
    if (!skip(U")")) {
      at_ = opened - 1;
      fail("a bracket is not closed");
    }
    dot_is_all_ = dot;
    ignores_case_ = cases;
    return inside;
  }

  // Up to the colon, or to the closing bracket: then they hold from here on, which is true.
  bool take_flags() {
    bool on = true;
    for (; peek() != U':' && peek() != U')'; ++at_) {
      switch (peek()) {
        case U'-': on = false; break;
        case U'i': ignores_case_ = on; break;
        case U's': dot_is_all_ = on; break;
        case U'u': break;
        case U'=':
        case U'!':
        case U'<': refuse("look-around");
        default: refuse("a group that begins with (?" + printable(shown(peek())));
      }
    }
    return text_[at_++] == U')';
  }

  Grammar::Ref write(icu::UnicodeSet set) {
    if (ignores_case_) set.closeOver(USET_CASE_INSENSITIVE);
    if (options_.write) return options_.write(grammar_, set);
    return grammar_.characters(set);
  }

  // Behind the opening bracket, which is not closed by a bracket right behind it.
  icu::UnicodeSet character_set() {
    const size_t opened = at_;
    const bool negated = skip(U"^");
    icu::UnicodeSet all;
    for (bool first = true; first || peek() != U']'; first = false) {
      if (peek() == kEnd) {
        at_ = opened - 1;
        fail("a class of characters is not closed");
      }
      icu::UnicodeSet low = member();
      if (peek() != U'-' || peek(1) == U']' || peek(1) == kEnd) {
        all.addAll(low);
        continue;
      }
      ++at_;
      const icu::UnicodeSet high = member();
      if (low.size() != 1 || high.size() != 1) fail("a range between classes");
      if (low.charAt(0) > high.charAt(0)) fail("the range falls");
      all.add(low.charAt(0), high.charAt(0));
    }
    ++at_;
    if (ignores_case_) all.closeOver(USET_CASE_INSENSITIVE);
    if (negated) all.complement();
    all.retainAll(all_characters());
    return all;
  }

  icu::UnicodeSet member() {
    if (peek() == kEnd) fail("a class of characters is not closed");
    if (peek() == U'\\') return escape(/*in_set=*/true);
    const auto c = static_cast<UChar32>(text_[at_++]);
    return {c, c};
  }

  icu::UnicodeSet escape(bool in_set) {
    const char32_t c = peek(1);
    if (c == kEnd) fail("nothing behind a backslash");
    if (auto set = letter_class(c)) {
      at_ += 2;
      return *std::move(set);
    }
    if (c == U'p' || c == U'P') return property(c == U'P');
    if (!in_set && c >= U'1' && c <= U'9') refuse("a reference to a group");
    if (!in_set && (c == U'b' || c == U'B')) refuse("a word boundary");
    const auto one = static_cast<UChar32>(escaped_character(c));
    return {one, one};
  }

  icu::UnicodeSet property(bool negated) {
    at_ += 2;
    std::string name;
    const auto add = [&] { append_utf8(text_[at_++], name); };
    if (skip(U"{")) {
      if (skip(U"^")) negated = !negated;
      while (peek() != U'}' && peek() != kEnd) add();
      if (!skip(U"}")) fail("a property's name has no end");
    } else if (peek() != kEnd) {
      add();
    }
    auto set = property_class(name);
    if (!set) fail("there is no property of characters " + in_quotes(name));
    if (negated) {
      set->complement();
      set->retainAll(all_characters());
    }
    return *std::move(set);
  }

  char32_t escaped_character(char32_t c) {
    at_ += 2;
    switch (c) {
      case U'n': return U'\n';
      case U't': return U'\t';
      case U'r': return U'\r';
      case U'f': return U'\f';
      case U'v': return U'\v';
      case U'a': return U'\a';
      case U'b': return U'\b';
      case U'0': return U'\0';
      case U'x': return by_number(2);
      case U'u': return by_number(4);
      case U'U': return by_number(8);
      default: break;
    }
    const bool is_letter =
        (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'1' && c <= U'9');
    if (is_letter) {
      at_ -= 2;
      fail("there is no escape \\" + printable(shown(c)));
    }
    return c;
  }

  char32_t by_number(int digits) {
    char32_t value = 0;
    const auto take = [&] {
      const int digit = digit_of(peek());
      if (digit < 0 || value > 0x10ffff) fail("expected a character's number in hexadecimal");
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
    };
    if (skip(U"{")) {
      while (peek() != U'}') take();
      ++at_;
    } else {
      for (int i = 0; i < digits; ++i) take();
    }
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
      fail("there is no character of that number");
    return value;
  }

  const std::u32string text_;
  Grammar& grammar_;
  const RegexOptions& options_;
  size_t at_ = 0;
  bool dot_is_all_ = false, ignores_case_ = false;
};

}  // namespace

Grammar::Ref parse_regex(std::string_view expression, Grammar& grammar,
                         const RegexOptions& options) {
  return RegexParser(expression, grammar, options).parse();
}

}  // namespace tandem
