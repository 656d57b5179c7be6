// What the resolution of a request's parameters looks at (params.cc): the request's values and the
// model's, one over the other.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "runtime/request/params.h"
#include "runtime/request/params_schema.h"

namespace tandem {

// Tokens, for models without a table of positions.
inline constexpr int64_t kUnlimited = 1 << 20;

inline InputError conflict(const std::string& param, const std::string& message) {
  return invalid_request(param, message);
}

// The request's value over the model's; a null of the request hides the model's.
template <class T>
const Option<T>& pick(const Option<T>& request, const Option<T>& model) {
  return request.given ? request : model;
}

template <class T>
T value_or(const Option<T>& option, T otherwise) {
  return option ? *option : otherwise;
}

// Everything about one request that the rules below look at.
struct Sources {
  const GenerationOptions& request;
  const GenerationOptions& model;
  const PromptLengths& lengths;
  int positions;  // 0: not limited

  int64_t prompt_len() const { return lengths.decoder_prompt_len; }
  // Prompt tokens that HuggingFace, starting from [decoder_start], would have generated.
  int64_t counted_as_new() const { return lengths.default_decoder_prompt ? 1 : 0; }
  // Most tokens that can be generated: the last one is never fed to the decoder.
  int64_t room() const { return positions > 0 ? positions - prompt_len() + 1 : kUnlimited; }

  template <class T>
  const Option<T>& operator()(Option<T> GenerationOptions::*field) const {
    return pick(request.*field, model.*field);
  }
};

}  // namespace tandem
