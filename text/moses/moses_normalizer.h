// Punctuation in its plain form, as HuggingFace's FSMT tokenizer has it done before words are cut:
// Moses' replace-unicode-punctuation, normalize-punctuation and remove-non-printing-char.
#pragma once

#include <string>
#include <string_view>

namespace tandem::moses {

// `text`: valid UTF-8. Quotes and numbers follow the language.
std::u32string normalize(std::string_view text, std::string_view language);

}  // namespace tandem::moses
