// Texts in the place of others.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// As Rust's str::replace(): from left to right; an empty `from` stands before each character and at
// the end. `text` is UTF-8.
std::string replaced(std::string_view text, std::string_view from, std::string_view to);

}  // namespace tandem
