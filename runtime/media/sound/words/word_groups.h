// Tokens → words: what HuggingFace's pipeline makes of them (_combine_tokens_into_words() of
// tokenization_whisper.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace tandem {

struct WordGroup {
  std::string text;            // with the blank before it
  std::vector<size_t> places;  // of its tokens; at least one
};

// The words without that: punctuation stands for itself.
std::vector<WordGroup> split_words(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens,
                                   std::string_view language);

// Opening punctuation goes to the word behind it, other to the one before it. What has gone leaves
// an empty word in its place, so that words stay where they are.
void join_punctuation(std::vector<WordGroup>& words);

// Both, without the empty words. Words begin at a blank or at punctuation; those of languages that
// are written without blanks at every character. Punctuation joins the word that it stands at.
// tokens: texts only. language: a code such as "ja"; "" and those that are not known have blanks.
std::vector<WordGroup> group_words(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens,
                                   std::string_view language);

}  // namespace tandem
