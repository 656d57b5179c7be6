// Regular expressions of the kind that Python, Rust and ECMAScript have in common: what a finite
// automaton can follow. \d \w \s and \p{…} mean Unicode's classes; \d is not only ASCII's.
#pragma once

#include <functional>
#include <string_view>

#include "text/grammar/grammar.h"

namespace tandem {

// How a character of a set is written, where texts stand in something else.
using WriteCharacters = std::function<Grammar::Ref(Grammar&, const icu::UnicodeSet&)>;

struct RegexOptions {
  WriteCharacters write = {};  // empty: as they are
  // It may stand anywhere in a text, unless ^ and $ say otherwise: `around` is what else there may
  // be, on each side. Below 0: the expression is the whole text.
  Grammar::Ref around = -1;
};

// Into `grammar`. ^ and $ may stand at the ends only, of the expression or of brackets around all
// of it or of an alternative. Throws GrammarError naming the character at fault; look-around,
// references to groups, possessive repetition and word boundaries are not supported. The expression
// must be valid UTF-8.
Grammar::Ref parse_regex(std::string_view expression, Grammar& grammar,
                         const RegexOptions& options = {});

}  // namespace tandem
