#include "text/grammar/gbnf_parser.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "text/grammar/grammar_error.h"

namespace tandem {
namespace {

constexpr std::string_view kDefines = "::=";

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view text, Grammar& grammar) : text_(text), grammar_(grammar) {}

  Grammar::Ref parse() {
    if (text_.find(kDefines) == std::string_view::npos)
      throw unsupported_grammar("it has no rule with ::=, as GBNF has them; Lark is not supported");
    for (skip_space(true); at_ < text_.size(); skip_space(true)) define();
    for (const auto& [name, rule] : rules_)
      if (grammar_.body(rule.index) < 0)
        throw wrong_grammar("line " + std::to_string(rule.line) + ": there is no rule " +
                            in_quotes(name));
    const auto root = rules_.find("root");
    if (root == rules_.end()) throw wrong_grammar("there is no rule \"root\"");
    return grammar_.rule(root->second.index);
  }

 private:
  struct Rule {
    int index;
    size_t line;
  };

  [[noreturn]] void fail(const std::string& what) const {
    throw wrong_grammar("line " + std::to_string(line()) + ": " + what);
  }
  size_t line() const {
    const auto end = text_.begin() + static_cast<ptrdiff_t>(std::min(at_, text_.size()));
    return 1 + static_cast<size_t>(std::count(text_.begin(), end, '\n'));
  }
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool skip(std::string_view what) {
    if (!text_.substr(std::min(at_, text_.size())).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  // And comments.
  void skip_space(bool lines) {
    for (; at_ < text_.size(); ++at_) {
      if (peek() == '#')
        while (at_ < text_.size() && peek() != '\n') ++at_;
      const char c = peek();
      const bool is_line = c == '\n' || c == '\r';
      if (c != ' ' && c != '\t' && !(lines && is_line)) return;
    }
  }

  std::string name() {
    std::string out;
    while (at_ < text_.size() && is_name(peek())) out += text_[at_++];
    return out;
  }
  const Rule& rule_of(const std::string& name) {
    const auto it = rules_.find(name);
    if (it != rules_.end()) return it->second;
    return rules_.emplace(name, Rule{grammar_.add_rule(), line()}).first->second;
  }

  void define() {
    const std::string own = name();
    if (own.empty()) fail("expected the name of a rule");
    skip_space(false);
    if (!skip(kDefines)) fail("expected ::= behind the name of a rule");
    skip_space(true);
    const int index = rule_of(own).index;
    if (grammar_.body(index) >= 0) fail("the rule " + in_quotes(own) + " is there twice");
    grammar_.define(index, alternatives(0));
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r')
      fail("expected the end of the rule " + in_quotes(own));
  }

  Grammar::Ref alternatives(int depth) {
    if (depth > kMaxGrammarDepth) throw grammar_explodes("brackets more than 200 deep");
    std::vector<Grammar::Ref> all{sequence(depth)};
    while (continues(depth)) all.push_back(sequence(depth));
    return grammar_.alternatives(std::move(all));
  }

  // Behind an alternative: takes the bar before the next one, which may stand on the next line.
  bool continues(int depth) {
    const size_t before = at_;
    skip_space(true);
    if (skip("|")) {
      skip_space(true);
      return true;
    }
    if (depth == 0) at_ = before;
    return false;
  }

  Grammar::Ref sequence(int depth) {
    std::vector<Grammar::Ref> parts;
    while (true) {
      skip_space(depth > 0);
      auto part = atom(depth);
      if (!part) return grammar_.sequence(std::move(parts));
      parts.push_back(repeated(*part));
    }
  }

  std::optional<Grammar::Ref> atom(int depth) {
    if (is_name(peek())) return grammar_.rule(rule_of(name()).index);
    if (skip("\"")) return literal();
    if (skip("[")) return grammar_.characters(character_set());
    if (skip(".")) return grammar_.characters(all_characters());
    if (!skip("(")) return std::nullopt;
    const Grammar::Ref inside = alternatives(depth + 1);
    skip_space(true);
    if (!skip(")")) fail("a bracket is not closed");
    return inside;
  }

  Grammar::Ref repeated(Grammar::Ref part) {
    while (true) {
      if (skip("*")) {
        part = grammar_.repeat(part, 0, std::nullopt);
      } else if (skip("+")) {
        part = grammar_.repeat(part, 1, std::nullopt);
      } else if (skip("?")) {
        part = grammar_.optional(part);
      } else if (skip("{")) {
        part = counted(part);
      } else {
        return part;
      }
    }
  }

  Grammar::Ref counted(Grammar::Ref part) {
    skip_space(true);
    const auto least = number();
    skip_space(true);
    const bool range = skip(",");
    skip_space(true);
    const auto most = range ? number() : least;
    skip_space(true);
    if ((!least && !most) || !skip("}")) fail("expected a count, as {2} or {2,3}");
    if (most && *most < least.value_or(0)) fail("the count falls");
    if (std::max(least.value_or(0), most.value_or(0)) > kMaxRepeats)
      throw grammar_explodes("a count above " + std::to_string(kMaxRepeats));
    return grammar_.repeat(part, least.value_or(0), most);
  }

  std::optional<int64_t> number() {
    std::optional<int64_t> value;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      value = std::min<int64_t>(value.value_or(0) * 10 + (peek() - '0'), kMaxRepeats + 1);
    return value;
  }

  Grammar::Ref literal() {
    std::vector<Grammar::Ref> characters;
    while (peek() != '"') {
      if (at_ >= text_.size() || peek() == '\n') fail("a text in quotes has no end");
      characters.push_back(grammar_.character(character()));
    }
    ++at_;
    return grammar_.sequence(std::move(characters));
  }

  icu::UnicodeSet character_set() {
    const bool negated = skip("^");
    icu::UnicodeSet all;
    while (peek() != ']') {
      if (at_ >= text_.size() || peek() == '\n') fail("a class of characters is not closed");
      const auto low = static_cast<UChar32>(character());
      auto high = low;
      if (peek() == '-' && peek(1) != ']') {
        ++at_;
        if (at_ >= text_.size()) fail("a class of characters is not closed");
        high = static_cast<UChar32>(character());
        if (high < low) fail("the range falls");
      }
      all.add(low, high);
    }
    ++at_;
    if (negated) all.complement();
    all.retainAll(all_characters());
    return all;
  }

  char32_t character() {
    if (peek() != '\\') {
      const CodePoint c = code_point_at(text_, at_);
      at_ += static_cast<size_t>(c.length);
      return c.value;
    }
    const char c = peek(1);
    at_ += 2;
    switch (c) {
      case 'n': return U'\n';
      case 'r': return U'\r';
      case 't': return U'\t';
      case 'x': return by_number(2);
      case 'u': return by_number(4);
      case 'U': return by_number(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^': return static_cast<char32_t>(c);
      default: fail("there is no escape \\" + printable(std::string(1, c)));
    }
  }

  char32_t by_number(size_t digits) {
    char32_t value = 0;
    for (size_t i = 0; i < digits; ++i, ++at_) {
      const auto c = static_cast<unsigned char>(peek());
      if (std::isxdigit(c) == 0) fail("expected a character's number in hexadecimal");
      const int digit = std::isdigit(c) != 0 ? c - '0' : std::tolower(c) - 'a' + 10;
      value = value * 16 + static_cast<char32_t>(digit);
      if (value > 0x10ffff) fail("there is no character of that number");
    }
    return value;
  }

  std::string_view text_;
  Grammar& grammar_;
  size_t at_ = 0;
  std::map<std::string, Rule> rules_;
};

}  // namespace

Grammar::Ref parse_gbnf(std::string_view text, Grammar& grammar) {
  return GbnfParser(text, grammar).parse();
}

}  // namespace tandem
