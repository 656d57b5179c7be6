// The last gate of an error message, before it is printed or sent.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

// UTF-8 that a terminal, a log and a reader can bear: control characters and bytes that are no
// UTF-8 become \xNN, and what goes on behind `limit` bytes is cut, with its length told.
std::string readable(std::string_view text, size_t limit = 2000);

}  // namespace tandem
