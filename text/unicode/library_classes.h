// Properties of characters as the `tokenizers` library of HuggingFace (0.23) knows them. Its crates
// carry tables of several versions of Unicode. These functions use the same versions, by ICU's ages
// of characters, so any ICU gives the same answers. The script
// scripts/goldens/make_tokenizer_components.py --tables asks the library for all characters.
#pragma once

#include <string>

namespace tandem {

inline bool in_range(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

bool is_punctuation(char32_t c);      // ASCII's, and category P of Unicode 8
bool is_control(char32_t c);          // Cc, Cf and Co of Unicode 7, but for \t, \n and \r
bool is_mark(char32_t c);             // M of Unicode 9
bool is_nonspacing_mark(char32_t c);  // Mn of Unicode 8
bool is_numeric(char32_t c);          // N of Unicode 17
void append_lowercase(char32_t c, std::string& out);  // of Unicode 17, whatever stands beside it

// Scripts of Unicode 9, as ICU's numbers; kAnyScript for characters without one.
inline constexpr int kAnyScript = -1;
int script_of(char32_t c);

}  // namespace tandem
