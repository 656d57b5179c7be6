// References to characters in HTML and Markdown: "&amp;", "&#x2014;".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

struct CharacterReference {
  size_t length = 0;  // bytes, with the "&"; 0: there is none
  std::string text;   // UTF-8
};

// The reference at text[position], which is an "&", as HTML reads it outside of attributes.
// old_names: also the names that need no semicolon ("&copy 2020"). A number that is no character
// means U+FFFD.
CharacterReference character_reference(std::string_view text, size_t position,
                                       bool old_names = true);

}  // namespace tandem
