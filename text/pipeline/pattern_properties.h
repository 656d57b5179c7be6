// Categories of characters in regular expressions. The Oniguruma of the `tokenizers` library knows
// Unicode 16; Debian 12's knows 14, Debian 13's 15.
#pragma once

#include <string>

namespace tandem {

// Once for the process: \p{L}, \p{Lu} and their like are those of Unicode 16.
void define_pattern_properties();

// The expression with \w, \d, \b and [:punct:] by such categories, too.
std::string spell_properties(const std::string& expression);

}  // namespace tandem
