// Which decoder prompts attend to all of themselves: one rule for schedulers and workers.
#pragma once

#include <cstddef>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// The tokens of such a prompt see all of it, and are computed in one step. model_does:
// ModelLimits::whole_prompts. Log-probabilities of a prompt's tokens are those behind the tokens
// before them, so these requests look back throughout, as in teacher forcing.
inline bool attends_to_whole_prompt(bool model_does, const proto::SamplingParams& params,
                                    size_t prompt_tokens) {
  return model_does && prompt_tokens > 1 && !params.has_prompt_logprobs() && !params.has_pooling();
}

}  // namespace tandem
