// Markdown of a page, as a model writes it, made fit to be read as such.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// post_process_generation(fix_markdown=True) of HuggingFace's tokenizer of Nougat, where nltk has
// no list of words. `text` is valid UTF-8, without special tokens. Throws InputError where a rule
// takes too long.
std::string page_markdown(std::string_view text);

}  // namespace tandem
