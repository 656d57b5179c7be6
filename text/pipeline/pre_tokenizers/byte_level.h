// "ByteLevel" of GPT-2: each byte of a text becomes a printable character, so that a vocabulary of
// strings can spell anything. As a pre-tokenizer it also splits into words; as a decoder it maps
// back.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/pipeline/text_pipeline.h"

namespace tandem {

class ByteLevelPreTokenizer : public PreTokenizer {
 public:
  explicit ByteLevelPreTokenizer(const JsonView& json);
  void split(const Word& text, GrowthBudget& budget, const WordSink& sink) const override;
  void align(const AlignedText& text, GrowthBudget& budget, const AlignedSink& sink) const override;
  bool transforms() const override { return true; }

 private:
  bool add_prefix_space_;
  bool use_regex_ = true;
};

class ByteLevelDecoder : public Decoder {
 public:
  // drops_invalid: invalid bytes are dropped instead of becoming U+FFFD.
  explicit ByteLevelDecoder(bool drops_invalid = false) : drops_invalid_(drops_invalid) {}
  bool drops_invalid() const override { return drops_invalid_; }
  bool works_bytewise() const override { return true; }
  std::string token_bytes(std::string_view token) const override;
  std::string inner_text(std::string_view token) const override;

 private:
  bool drops_invalid_;
};

// A tokenizer.json in which each byte is a token, with stages and model. The ids begin with
// `first_tokens`, then the bytes. Its decoder drops invalid bytes.
nlohmann::json byte_document(const std::vector<std::string>& first_tokens);

// Each byte of `text` as the character that stands for it.
std::string byte_characters(std::string_view text);
std::vector<AlignedText::Change> byte_changes(std::string_view text);

// End of the word that starts at `position` of valid UTF-8. GPT-2's pattern, which covers every
// text without a gap:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t gpt2_word_end(std::string_view text, size_t position);

}  // namespace tandem
