// What speech models may say of times: HuggingFace's WhisperTimeStampLogitsProcessor.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Masks entries of `row`, the processed logits or log-probabilities of the token behind `prompt`
// and `output`. Of the prompt the rules see the last prefix_tokens only, which the output begins
// with (faster-whisper's prefix); of other prompts nothing, as in HuggingFace. Masked are: the
// no-timestamps token; tokens that would break a pair of times (times end one text and begin the
// next); times before the last one; for the first token, all but early times. If the remaining
// times together are more likely than any text token, text tokens are masked too.
void mask_by_timestamps(const proto::TimestampRules& rules, std::span<const int32_t> prompt,
                        std::span<const int32_t> output, std::span<float> row);

}  // namespace tandem
