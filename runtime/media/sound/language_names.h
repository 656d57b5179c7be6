// The names of spoken languages.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// "german", "German" or "de" → "de"; empty: no language of that name.
std::string language_code(std::string_view name);
// "de" → "german"; a code without a name is its own.
std::string language_name(std::string_view code);
// "<|de|>", the token of a language → "de".
std::string language_code_of_token(std::string_view token);

}  // namespace tandem
