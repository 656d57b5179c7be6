// Words and blanks of texts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

// The text with each run of white space as one blank, and without any at its ends.
std::string with_single_blanks(std::string_view text);
// Whether there is a letter in it: without one there is nothing to translate.
bool has_letter(std::string_view text);
// Whether a place in the text, at a boundary of characters, has letters or digits of one word on
// both sides. Scripts without spaces between words have no such places.
bool is_within_word(std::string_view text, size_t at);

}  // namespace tandem
