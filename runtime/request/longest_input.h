// How long an input the model reads, in tokens.
#pragma once

#include <cstddef>

#include "runtime/request/params/params_resolver.h"
#include "text/tokenizer.h"

namespace tandem {

inline size_t longest_input(const Tokenizer& tokenizer, const ParamsResolver& resolver) {
  // Of models that read any length, where the tokenizer does not say what they were trained on.
  constexpr size_t kTrainedLength = 512;
  if (resolver.encoder_positions() > 0) return static_cast<size_t>(resolver.encoder_positions());
  const int trained = tokenizer.model_max_length();
  return trained > 0 ? static_cast<size_t>(trained) : kTrainedLength;
}

}  // namespace tandem
