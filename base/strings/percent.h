// Percent-encoding (RFC 3986, 2.1).
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// "a%20b" → "a b". Invalid escapes stay as they are.
std::string percent_decoded(std::string_view text);

}  // namespace tandem
