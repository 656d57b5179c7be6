// Prompts of a request: JSON → Prompt → token ids of encoder and decoder.
//
// A prompt is a string, {"prompt": string}, {"prompt_token_ids": [int]} (also "prompt_tokens", or
// the list alone), or a pair {"encoder_prompt": P, "decoder_prompt": P} of those. A single one is
// the encoder's. A pair may have a "target": P too, which is to be scored instead of generating
// anything, up to an end token ("append_eos": false: without one). Or the encoder's output is all
// that is wanted: {"encoder_prompt": P, "pooling": "mean", "cls" or "last", "normalize": bool}.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "models/config/config.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/request/params.h"
#include "text/tokenizer.h"

namespace tandem {

struct PromptPart {
  std::variant<std::string, std::vector<int32_t>> content;
  std::string field;  // where it stands in the request, for messages: "prompt.encoder_prompt"
};

struct Prompt {
  PromptPart encoder;
  std::optional<PromptPart> decoder = {};
  std::optional<PromptPart> target = {};
  bool append_eos = true;
  std::optional<proto::Pooling> pooling = {};  // normalised unless the prompt says otherwise
};

// Throws InputError naming the field: wrong type, unknown or missing key, empty list of ids,
// multi-modal data (not built yet).
Prompt parse_prompt(const nlohmann::json& prompt);

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
PreparedPrompt preprocess(const Prompt& prompt, const nlohmann::json& params,
                          const Tokenizer* tokenizer, const ModelConfig& config,
                          const ParamsResolver& resolver);

}  // namespace tandem
