// Generation parameters: JSON under HuggingFace's and vLLM's names → SamplingParams.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/config/config.h"
#include "models/config/limits.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/request/params_schema.h"

namespace tandem {

// What the resolution needs to know of the request's prompts.
struct PromptLengths {
  int decoder_prompt_len = 0;  // prompt_token_ids, as it goes to the decoder
  bool default_decoder_prompt =
      false;  // [decoder_start, bos] was put there, the BOS counts as generated
};

// Fields of a request's `params` that need the tokenizer.
struct PromptParams {
  std::optional<int> truncate_prompt_tokens;  // keep that many encoder tokens, the end token kept
  bool add_special_tokens = true;             // around texts
  // Texts that must not be generated. Their ids belong into bad_words_ids of what resolve() makes.
  std::vector<std::string> bad_words;
  bool allow_empty_prompt = false;  // an empty text is a prompt
};

// Parameters of a request: `params` (a JSON object) over generation_config.json over HuggingFace's
// defaults. null switches an option off. Throws InputError naming the parameter: unknown, not built
// yet, of the wrong type, out of range, or in conflict with another. docs/parameters.md tells what
// each one means. Immutable after construction; usable from any thread.
class ParamsResolver {
 public:
  // `config` outlives the resolver. Throws InputError if generation_config.json is wrong.
  ParamsResolver(const ModelConfig& config, int vocab_size);

  PromptParams prompt_params(const nlohmann::json& params) const;
  proto::SamplingParams resolve(const nlohmann::json& params, const PromptLengths& lengths) const;
  // Of a request that scores a target behind such a prompt: the one token that is generated is the
  // target's last one. Parameters of generation are errors.
  proto::SamplingParams resolve_scoring(const nlohmann::json& params, const PromptLengths& lengths,
                                        int32_t last_token) const;
  // Of a request whose encoder's output is pooled.
  proto::SamplingParams resolve_pooling(const nlohmann::json& params,
                                        const proto::Pooling& pooling) const;
  // eos_token_id of the request (null: none), else of the model.
  std::vector<int32_t> end_tokens(const nlohmann::json& params) const;
  // BOS of the default decoder prompt: forced_bos_token_id of the request, else of the model, else
  // bos_token_id; -1 if there is none.
  int default_bos(const nlohmann::json& params) const;
  // The token that decoder sequences start with: decoder_start_token_id, else bos_token_id, of the
  // request, else of the model; -1 if there is none.
  int decoder_start(const nlohmann::json& params) const;

  int vocab_size() const { return vocab_size_; }
  // Of the encoder and of the decoder. 0: not limited
  int encoder_positions() const { return limits_.encoder_positions.value_or(0); }
  int decoder_positions() const { return limits_.decoder_positions.value_or(0); }

 private:
  const ModelConfig& config_;
  ModelLimits limits_;
  int vocab_size_;
  GenerationOptions defaults_;
};

}  // namespace tandem
