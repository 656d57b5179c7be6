// Character classes as the regular expressions of HuggingFace's tokenizers mean them.
#pragma once

#include <vector>

namespace tandem {

struct CodePointRange {
  char32_t first, last;
};

bool is_letter(char32_t c);  // \p{L}
bool is_number(char32_t c);  // \p{N}
bool is_space(char32_t c);   // \s: White_Space, so with U+0085 and without U+180E
bool is_word(char32_t c);    // \w: Alphabetic, marks, decimal digits, connectors, joiners

std::vector<CodePointRange> word_ranges();  // of is_word, in no order

}  // namespace tandem
