// Text of strangers in logs.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// Without what ends a line, moves a terminal's cursor or changes the direction of text: control
// characters, separators of lines, bidirectional controls and bytes that are not UTF-8 become
// escapes (\n, \x1b, \u2028).
std::string escape_controls(std::string_view text);

// The same, and quotes and backslashes are escaped: for a quoted field of a line.
std::string escape_field(std::string_view text);

}  // namespace tandem
