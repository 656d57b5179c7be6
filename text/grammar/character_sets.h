// The classes of characters that regular expressions name.
#pragma once

#include <unicode/uniset.h>

#include <optional>
#include <string>

namespace tandem {

// \d, \w, \s and their complements, as Unicode has them; nothing of another letter.
std::optional<icu::UnicodeSet> letter_class(char32_t letter);
// \p{NAME}: a category, a script or a property, as ICU knows them; nothing if it does not.
std::optional<icu::UnicodeSet> property_class(const std::string& name);

}  // namespace tandem
