// The first tokens of a decoder: a rule for each family.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "models/config/config.h"

namespace tandem {

struct DecoderPromptContext {
  const ModelConfig& config;
  int decoder_start;  // -1: none
  int default_bos;    // -1: none
};

struct DecoderPrompt {
  std::vector<int32_t> ids;
  bool default_bos = false;  // ends with a BOS that counts as generated
};

// Makes the decoder prompt of a family; `given` is the request's, if it has one.
using DecoderPromptRule = DecoderPrompt (*)(const std::optional<std::vector<int32_t>>& given,
                                            const DecoderPromptContext& context);

// HuggingFace's rule. Without a prompt: [start]. Otherwise the prompt, with start before it unless
// it begins with start. Throws InputError if there is no start token.
DecoderPrompt plain_decoder_prompt(const std::optional<std::vector<int32_t>>& given,
                                   const DecoderPromptContext& context);
// As above, but [start, bos] without a prompt.
DecoderPrompt start_and_bos_prompt(const std::optional<std::vector<int32_t>>& given,
                                   const DecoderPromptContext& context);

// The rule of the configuration's family (models/family.h); without a family the plain one.
DecoderPromptRule decoder_prompt_rule(const ModelConfig& config);

// The tokens of a decoder's prompt where sound is transcribed, of families whose prompts say more
// than the start. "$source" and "$target" stand for the tokens of languages, such as <|en|>. Empty:
// the family has no such prompt.
std::vector<std::string> speech_prompt(const ModelConfig& config);

// The source as the decoder of a class with a head reads it, HuggingFace's shift_tokens_right. A
// token of the family's comes first, then the source without its last id. `source` is not empty.
// decoder_start: -1 for none. Throws InputError if there is no start token.
using ShiftRule = std::vector<int32_t> (*)(std::span<const int32_t> source,
                                           const ModelConfig& config, int decoder_start);
// Behind the start token.
std::vector<int32_t> start_before_source(std::span<const int32_t> source, const ModelConfig& config,
                                         int decoder_start);
// Behind the source's last id that is no padding, which is its language.
std::vector<int32_t> language_before_source(std::span<const int32_t> source,
                                            const ModelConfig& config, int decoder_start);
// The rule of the configuration's family; without a family the first one.
ShiftRule shift_rule(const ModelConfig& config);

}  // namespace tandem
