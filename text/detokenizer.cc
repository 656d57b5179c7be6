// Incremental decoding: all bytes but those of an unfinished character are final as soon as they
// are there, because a later byte can only complete the character at the end.
#include "base/utf8.h"
#include "text/tokenizer.h"

namespace tandem {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(tokenizer), skip_special_(skip_special) {}

std::string Detokenizer::append(int32_t id) {
  if (skip_special_ && tokenizer_.is_special(id)) return {};
  pending_ += tokenizer_.token_bytes(id);
  const size_t certain = pending_.size() - unfinished_utf8(pending_);
  std::string text;
  append_utf8_lossy(std::string_view(pending_).substr(0, certain), text);
  pending_.erase(0, certain);
  return text;
}

std::string Detokenizer::finish() {
  std::string text;
  append_utf8_lossy(pending_, text);
  pending_.clear();
  return text;
}

}  // namespace tandem
