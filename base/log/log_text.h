// Untrusted text in logs.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// Escapes control characters, line separators, bidirectional controls and bytes that are not UTF-8
// (\n, \x1b, \u2028). So the text cannot end a line, move a terminal's cursor or change the
// direction of text.
std::string escape_controls(std::string_view text);

// The same, and escapes quotes and backslashes: for a quoted field of a line.
std::string escape_field(std::string_view text);

}  // namespace tandem
