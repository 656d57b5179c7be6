// What a model that writes pages repeats, or makes up: the rules of Nougat's authors, as
// HuggingFace's tokenizer of that name has them.
#pragma once

#include <string>

namespace tandem {

// truncate_repetitions(): a text whose end says the same again and again ends with the sentence in
// which that begins.
std::string without_repeated_end(const std::string& text);

// remove_hallucinated_references(): lists of references that are all alike become
// [MISSING_PAGE_POST].
std::string without_made_up_references(std::string text);

}  // namespace tandem
