// Texts by the character, as Python indexes them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// Of valid UTF-8, and back.
std::u32string characters_of(std::string_view text);
std::string utf8_of(std::u32string_view characters);

// str.split("\n"): at least one line.
std::vector<std::string> lines_of(std::string_view text);
// "\n".join() of lines [first, last).
std::string joined_lines(const std::vector<std::string>& lines, size_t first, size_t last);

}  // namespace tandem
