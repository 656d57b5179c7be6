// Web addresses and e-mail addresses in texts, which nobody translates.
#pragma once

#include <string_view>
#include <vector>

#include "text/sentences.h"

namespace tandem {

// In the order of the text: what begins with "http://", "https://" or "www.", and "name@host.tld".
// Punctuation at their ends, and a bracket that is not opened in them, are not theirs.
std::vector<TextSpan> web_addresses_of(std::string_view text);

}  // namespace tandem
