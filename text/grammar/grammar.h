// A set of texts: rules over characters. Regular expressions, JSON schemas and GBNF become one.
#pragma once

#include <unicode/uniset.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/unicode/unicode_classes.h"

namespace tandem {

inline constexpr int kMaxGrammarDepth = 200;  // of brackets in what is parsed
inline constexpr int64_t kMaxRepeats = 1000000;

// Expressions are made from the inside out and referred to by number. Each function that makes one
// throws a GrammarError when there are too many of them.
class Grammar {
 public:
  using Ref = int32_t;
  enum class Kind : uint8_t { kCharacters, kSequence, kAlternatives, kRepeat, kRule };
  struct Expression {
    Kind kind;
    int32_t index = 0;       // of the class of characters, or of the rule
    int64_t least = 0;       // of kRepeat
    int64_t most = 0;        // below 0: no limit
    std::vector<Ref> parts;  // of kSequence and kAlternatives; the one of kRepeat
  };
  using CharacterClass = std::vector<CodePointRange>;  // ascending, without surrogates

  // Any one character of the set; surrogates are none.
  Ref characters(const icu::UnicodeSet& set);
  Ref character(char32_t c);
  // Valid UTF-8.
  Ref text(std::string_view utf8);
  Ref nothing() { return sequence({}); }         // the empty text
  Ref impossible() { return alternatives({}); }  // no text at all
  Ref sequence(std::vector<Ref> parts);
  Ref alternatives(std::vector<Ref> parts);
  Ref optional(Ref part) { return repeat(part, 0, 1); }
  // most: none is without limit. 0 <= least.
  Ref repeat(Ref part, int64_t least, std::optional<int64_t> most);

  // A rule may be referred to before it is defined. A rule that never is has no text.
  int add_rule();
  void define(int rule, Ref body);
  Ref rule(int rule);

  void set_root(Ref root) { root_ = root; }
  Ref root() const { return root_; }
  const Expression& expression(Ref ref) const { return expressions_[static_cast<size_t>(ref)]; }
  const std::vector<CharacterClass>& classes() const { return classes_; }
  // Below 0: it is not defined.
  Ref body(int rule) const { return rules_[static_cast<size_t>(rule)]; }
  size_t num_rules() const { return rules_.size(); }

 private:
  Ref add(Expression expression);
  Ref of_class(CharacterClass ranges);

  std::vector<Expression> expressions_;
  std::vector<CharacterClass> classes_;
  std::map<std::vector<char32_t>, int32_t> known_;  // classes by their bounds
  std::vector<Ref> rules_;
  Ref root_ = -1;
  size_t parts_ = 0;
};

// All characters that UTF-8 can write.
const icu::UnicodeSet& all_characters();

}  // namespace tandem
