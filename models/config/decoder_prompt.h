// With which tokens a decoder starts: a rule for each family.
#pragma once

#include <cstdint>
#include <optional>
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

// HuggingFace's: [start] without a prompt; otherwise the prompt, behind start unless it begins with
// it. Throws InputError where there is no start token.
DecoderPrompt plain_decoder_prompt(const std::optional<std::vector<int32_t>>& given,
                                   const DecoderPromptContext& context);
// As above, but [start, bos] without a prompt.
DecoderPrompt start_and_bos_prompt(const std::optional<std::vector<int32_t>>& given,
                                   const DecoderPromptContext& context);

// The rule of the configuration's family (models/family.h), the plain one where there is none.
DecoderPromptRule decoder_prompt_rule(const ModelConfig& config);

}  // namespace tandem
