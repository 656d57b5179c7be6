// The last gate of an error message, before it is printed or sent.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

// UTF-8 that is safe for a terminal, a log and a reader. Control characters and bytes that are not
// UTF-8 become \xNN. Text beyond `limit` bytes is cut, with its length.
std::string readable(std::string_view text, size_t limit = 2000);

}  // namespace tandem
