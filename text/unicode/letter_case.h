// Texts in lower case.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// Of valid UTF-8, by ICU's full mappings, as Python's str.lower().
std::string lower_case(std::string_view text);

}  // namespace tandem
