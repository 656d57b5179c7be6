// What speech models may say of times: HuggingFace's WhisperTimeStampLogitsProcessor.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Masks entries of `row`, the processed logits or log-probabilities of the token behind `prompt`
// and `output`. A prompt that ends with time 0 and text has begun the output (faster-whisper's
// prefix). Masked are: the no-timestamps token; tokens that would break a pair of times (times end
// one text and begin the next); times before the last one; for the first token, all but early
// times. If the remaining times together are more likely than any text token, text tokens are
// masked too.
void mask_by_timestamps(const proto::TimestampRules& rules, std::span<const int32_t> prompt,
                        std::span<const int32_t> output, std::span<float> row);

}  // namespace tandem
