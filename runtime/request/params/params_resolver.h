// Generation parameters: what a request asks for, over what the model says → SamplingParams.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/config/config.h"
#include "models/config/limits.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/request/params/option_sources.h"

namespace tandem {

// Options of a request that concern its texts.
struct PromptParams {
  std::optional<int> truncate_prompt_tokens;  // keep that many encoder tokens, the end token kept
  bool add_special_tokens = true;             // around texts
  bool allow_empty_prompt = false;            // an empty text is a prompt
  std::string prefix;                         // of the task: before the encoder's text
};

// Parameters of a request: its options, within their bounds (check_options()), over its task's
// (task_specific_params of config.json) over generation_config.json over HuggingFace's defaults.
// Throws InputError naming the parameter: asked for by the model but not built yet, with ids
// outside the vocabulary, or in conflict with another. docs/parameters.md tells what each one
// means. Immutable after construction; usable from any thread.
class ParamsResolver {
 public:
  // `config` outlives the resolver. Throws InputError if generation_config.json is wrong.
  ParamsResolver(const ModelConfig& config, int vocab_size);

  PromptParams prompt_params(const proto::GenerationOptions& request) const;
  proto::SamplingParams resolve(const proto::GenerationOptions& request,
                                const PromptLengths& lengths) const;
  // Of a request that scores a target behind such a prompt: the one token that is generated is the
  // target's last one. Parameters of generation are errors.
  proto::SamplingParams resolve_scoring(const proto::GenerationOptions& request,
                                        const PromptLengths& lengths, int32_t last_token) const;
  // Of a request whose hidden states are pooled.
  proto::SamplingParams resolve_pooling(const proto::GenerationOptions& request,
                                        const proto::Pooling& pooling) const;
  // eos_token_id of the request (switched off: none), else of the model.
  std::vector<int32_t> end_tokens(const proto::GenerationOptions& request) const;
  // BOS of the default decoder prompt: forced_bos_token_id of the request, else of the model, else
  // bos_token_id; -1 if there is none.
  int default_bos(const proto::GenerationOptions& request) const;
  // The token that decoder sequences start with: decoder_start_token_id, else bos_token_id, of the
  // request, else of the model; -1 if there is none.
  int decoder_start(const proto::GenerationOptions& request) const;
  // What the model's settings, or those of the request's task, force at first; -1: nothing.
  int model_forced_bos(const proto::GenerationOptions& request) const;

  int vocab_size() const { return vocab_size_; }
  const ModelLimits& limits() const { return limits_; }
  // Of the ids that the encoder reads: it may have a vocabulary of its own.
  int encoder_vocab_size() const {
    return limits_.encoder_vocabulary > 0 ? limits_.encoder_vocabulary : vocab_size_;
  }
  // Of the encoder and of the decoder. 0: not limited.
  int encoder_positions() const { return limits_.encoder_positions.value_or(0); }
  int decoder_positions() const { return limits_.decoder_positions.value_or(0); }
  // Null: the encoder reads ids.
  const FrameLimits* frames() const { return limits_.frames ? &*limits_.frames : nullptr; }

 private:
  // Of a task of the model's: its settings over the model's, and why they cannot be taken.
  struct Task {
    std::string prefix;
    ModelOptions defaults;
    std::string error;
  };
  void read_tasks();
  const Task* task_of(const proto::GenerationOptions& request) const;
  const ModelOptions& defaults(const proto::GenerationOptions& request) const;

  const ModelConfig& config_;
  ModelLimits limits_;
  int vocab_size_;
  ModelOptions defaults_;
  std::map<std::string, Task> tasks_;
};

}  // namespace tandem
