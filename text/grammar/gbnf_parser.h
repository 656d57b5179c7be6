// GBNF, the grammars of llama.cpp: rules over characters, which may call each other and themselves.
#pragma once

#include <string_view>

#include "text/grammar/grammar.h"

namespace tandem {

// Into `grammar`; returns the rule `root`. Throws GrammarError naming the line, or the rule that is
// called and not there. Rules may call themselves anywhere, also at their start. The text must be
// valid UTF-8.
Grammar::Ref parse_gbnf(std::string_view text, Grammar& grammar);

}  // namespace tandem
