// Moses' tokenizer: words, punctuation by itself, hyphens as "@-@", XML's characters escaped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::moses {

// The words of a normalized text (moses_normalizer.h), in UTF-8; none is empty.
std::vector<std::string> tokenize(std::u32string text, std::string_view language);

}  // namespace tandem::moses
