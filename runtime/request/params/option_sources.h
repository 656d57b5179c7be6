// What the resolution of a request's parameters looks at (params_resolver.cc): the request's
// options and the model's, one over the other.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Tokens, for models without a table of positions.
inline constexpr int64_t kUnlimited = 1 << 20;

// What the resolution needs to know of the request's prompts.
struct PromptLengths {
  int decoder_prompt_len = 0;  // prompt_token_ids, as it goes to the decoder
  bool default_decoder_prompt =
      false;  // [decoder_start, bos] was put there, the BOS counts as generated
};

inline InputError conflict(const std::string& param, const std::string& message) {
  return invalid_request(param, message);
}

// Whether the options switch a parameter off by its name.
bool is_off(const proto::GenerationOptions& options, const std::string& name);

// Throws InputError naming the parameter that has a token id outside the vocabulary.
void check_vocabulary(const proto::GenerationOptions& options, int vocab_size);

// Everything about one request that the rules look at.
struct OptionSources {
  const proto::GenerationOptions& request;
  const proto::GenerationOptions& model;
  const proto::GenerationOptions& both;  // one over the other
  const PromptLengths& lengths;
  int positions;  // 0: not limited

  int64_t prompt_len() const { return lengths.decoder_prompt_len; }
  // Prompt tokens that HuggingFace, starting from [decoder_start], would have generated.
  int64_t counted_as_new() const { return lengths.default_decoder_prompt ? 1 : 0; }
  // Most tokens that can be generated: the last one is never fed to the decoder.
  int64_t room() const { return positions > 0 ? positions - prompt_len() + 1 : kUnlimited; }
};

}  // namespace tandem
