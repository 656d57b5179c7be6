// Classes of characters, and words that keep their dot, as Moses' tools know them (sacremoses 0.2).
#pragma once

#include <string>
#include <string_view>

namespace tandem::moses {

bool is_alnum(char32_t c);        // with the joiners of Indic scripts
bool is_alpha(char32_t c);        // the same
bool is_plain_alpha(char32_t c);  // without these
bool is_number(char32_t c);
bool is_currency(char32_t c);
bool is_lower(char32_t c);
bool is_cjk(char32_t c);

// Whether texts of the language can be cut into words.
bool knows(std::string_view language);
// Whether the dot behind the word belongs to it: always, or before numbers.
bool keeps_dot(std::string_view language, std::string_view word);
bool keeps_dot_before_numbers(std::string_view language, std::string_view word);

}  // namespace tandem::moses
