// Moses' detokenizer over a growing sequence of tokens, whose words end with "</w>".
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace tandem::moses {

// Whether texts of the language have no rules but those below.
bool joins(std::string_view language);

class MosesStream final : public TokenStream {
 public:
  explicit MosesStream(std::string_view language) : language_(language) {}
  std::string append(std::string_view token) override;
  std::string finish() override;

 private:
  std::string add_word(std::string_view word);
  std::string join(const std::string& word);  // with the space before it, if there is one
  std::string placed(const std::string& word, bool to_left, bool next_to_right);

  std::string language_;
  std::string letters_;  // of a word that goes on
  // A word to which hyphens may still join others, escaped; and whether the last one waits for one.
  std::string word_;
  bool hyphen_ = false;
  std::string last_;  // the word before
  bool space_ = true;
  bool given_ = false;
  std::map<std::string, int, std::less<>> quotes_;  // how many of each there were
};

}  // namespace tandem::moses
