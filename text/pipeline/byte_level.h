// "ByteLevel" of GPT-2: text as bytes, each byte as a printable character, so that a vocabulary of
// strings can spell anything. As a pre-tokenizer it also splits into words; as a decoder it maps
// back.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "text/pipeline/text_pipeline.h"

namespace tandem {

class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  explicit ByteLevelPreTokenizer(const JsonView& json);
  void split(std::string_view text, const TextSink& word) const override;

 private:
  bool add_prefix_space_;
  bool use_regex_ = true;
};

class ByteLevelDecoder : public Decoder {
 public:
  bool works_bytewise() const override { return true; }
  std::string token_bytes(std::string_view token) const override;
};

// End of the word that starts at `position` of valid UTF-8, by GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// which covers every text without a gap.
size_t gpt2_word_end(std::string_view text, size_t position);

}  // namespace tandem
