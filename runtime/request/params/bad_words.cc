// As vLLM's SamplingParams.update_from_tokenizer(), which however leaves out the tokens behind a
// blank where there are more or fewer of them than without; here they are bad as well.
#include "runtime/request/params/bad_words.h"

#include <set>
#include <utility>

namespace tandem {

std::vector<std::vector<int32_t>> bad_words_ids(const std::vector<std::string>& words,
                                                const Tokenizer& tokenizer) {
  std::vector<std::vector<int32_t>> out;
  std::set<std::vector<int32_t>> known;
  for (const std::string& word : words)
    for (const char* before : {"", " "}) {
      std::vector<int32_t> ids = tokenizer.encode(before + word, /*add_special=*/false);
      if (!ids.empty() && known.insert(ids).second) out.push_back(std::move(ids));
    }
  return out;
}

}  // namespace tandem
