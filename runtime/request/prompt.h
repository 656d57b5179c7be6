// The prompt of a request → token ids of encoder and decoder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/config/config.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/request/params_resolver.h"
#include "text/tokenizer.h"

namespace tandem {

struct PreparedPrompt {
  proto::EncoderDecoderInputs inputs;
  PromptLengths lengths;  // for ParamsResolver::resolve
  // Scoring: the target's last token, which no step feeds to the decoder; those before it end the
  // decoder prompt.
  std::optional<int32_t> last_target_token = {};
  std::optional<proto::Pooling> pooling = {};  // then there is no decoder prompt
};

// An empty text (white space is nothing) is an error where there is nothing else to go by and the
// request's allow_empty_prompt does not allow it. Tokenises, truncates if the request's
// truncate_prompt_tokens says so (the tail is cut, the end tokens stay), makes the decoder prompt,
// and checks ids and the encoder's length. `tokenizer` may be null if the model has none: then text
// is an error. Throws InputError with the field and the numbers.
PreparedPrompt preprocess(const proto::Prompt& prompt, const proto::GenerationOptions& options,
                          const Tokenizer* tokenizer, const ModelConfig& config,
                          const ParamsResolver& resolver);

// --- families ----------------------------------------------------------------------------------

struct DecoderPromptContext {
  const ModelConfig& config;
  int decoder_start;  // -1: none
  int default_bos;    // -1: none
};

struct DecoderPrompt {
  std::vector<int32_t> ids;
  bool default_bos = false;  // ends with a BOS that counts as generated (PromptLengths)
};

// Makes the decoder prompt of a family; `given` is the request's, if it has one.
using DecoderPromptRule = DecoderPrompt (*)(const std::optional<std::vector<int32_t>>& given,
                                            const DecoderPromptContext& context);

// HuggingFace's: [start] without a prompt; otherwise the prompt, behind start unless it begins with
// it.
DecoderPrompt plain_decoder_prompt(const std::optional<std::vector<int32_t>>& given,
                                   const DecoderPromptContext& context);
// BART: as above, but [start, bos] without a prompt.
DecoderPrompt bart_decoder_prompt(const std::optional<std::vector<int32_t>>& given,
                                  const DecoderPromptContext& context);

// By model_type of config.json; plain_decoder_prompt for all that the table does not name.
DecoderPromptRule find_decoder_prompt_rule(const std::string& model_type);
// For models outside this repository: call before any request, not thread-safe.
void register_decoder_prompt_rule(const std::string& model_type, DecoderPromptRule rule);

}  // namespace tandem
