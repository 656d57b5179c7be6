// Hypotheses of a window of sound that grows → the words that stay: those that two hypotheses in a
// row agree on (local agreement). What is settled is never taken back.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct LiveWord {
  std::string text;    // with the blanks and the punctuation before it
  std::string tail;    // the punctuation behind it
  std::string key;     // in lower case, without punctuation: what is compared
  size_t segment = 0;  // of the hypothesis
};
// Splits at blanks, and between the characters of languages that write none. Appends.
void append_words(std::string_view text, size_t segment, std::vector<LiveWord>& words);

class WordAgreement {
 public:
  // The next hypothesis of the whole window. `settle`: words from the first on that are settled
  // whether or not the hypothesis before had them too. Returns what is settled by it, as text.
  std::string take(std::vector<LiveWord> heard, size_t settle = 0);
  // No more hypotheses of this window come: the last one's words are all settled.
  std::string finish();
  // The window now begins behind the words of the last hypothesis up to segment `segment`, all of
  // which are settled. Returns what is settled by that: punctuation.
  std::string cut(size_t segment);

  // Words of the last hypothesis, and how many of them are settled.
  const std::vector<LiveWord>& heard() const { return heard_; }
  size_t num_settled() const { return settled_; }
  // The first words of the last hypothesis.
  std::string text_to(size_t count) const;
  // Behind what is settled, as the last hypothesis has it.
  std::string partial() const;
  void check_integrity() const;

 private:
  size_t matched(const std::vector<LiveWord>& heard) const;
  std::string settle_to(size_t count);

  std::vector<std::string> keys_;  // of the words that are settled in this window
  std::vector<LiveWord> heard_;
  size_t settled_ = 0;
  bool tail_said_ = true;  // of the last settled word
};

}  // namespace tandem
