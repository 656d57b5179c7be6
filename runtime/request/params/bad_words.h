// Texts that must not be generated, as tokens that must not complete each other.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace tandem {

// Each word as its tokens at the beginning of a text and behind a blank, without duplicates. A word
// that the tokenizer makes nothing of has none. Words begin with no blank.
std::vector<std::vector<int32_t>> bad_words_ids(const std::vector<std::string>& words,
                                                const Tokenizer& tokenizer);

}  // namespace tandem
