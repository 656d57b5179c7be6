// Texts by the line, as Python splits them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

// str.split("\n"): at least one line.
std::vector<std::string> split_lines(std::string_view text);
// "\n".join() of lines [first, last).
std::string joined_lines(const std::vector<std::string>& lines, size_t first, size_t last);

}  // namespace tandem
