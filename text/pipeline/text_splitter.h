// The stages from a text to the words that the model gets: normalizer, added tokens, pre-tokenizer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/added_tokens.h"
#include "text/pipeline/text_pipeline.h"

namespace tandem {

// Immutable once added() is filled; usable from any thread.
class TextSplitter {
 public:
  // One of the two is called for each part of the text, in order. A word is never empty.
  struct Sink {
    std::function<void(std::string_view)> word;
    std::function<void(int32_t)> token;
  };

  TextSplitter() = default;  // a text is a word
  TextSplitter(std::unique_ptr<Normalizer> normalizer, std::unique_ptr<PreTokenizer> pre_tokenizer);

  const Normalizer* normalizer() const { return normalizer_.get(); }  // may be null
  AddedTokens& added() { return added_; }
  const AddedTokens& added() const { return added_; }

  void split(std::string_view text, GrowthBudget& budget, const Sink& sink) const;
  // The last stage alone, of a text that begins where the input begins if `starts`.
  void split_words(std::string_view text, bool starts, GrowthBudget& budget,
                   const Sink& sink) const;

 private:
  // A word, or, without one, a token.
  struct Part {
    std::string word;
    int32_t token;
  };
  std::vector<Part> aligned_parts(std::string_view text, GrowthBudget& budget) const;
  bool needs_alignment(std::string_view text) const;

  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> pre_tokenizer_;  // may be null
  AddedTokens added_;
  // Whether the plain stages may differ from the library's: on all texts, and on those with
  // characters that are not ASCII.
  bool aligns_ = false, aligns_marks_ = false;
};

}  // namespace tandem
