// What speech models may say of times: HuggingFace's WhisperTimeStampLogitsProcessor.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Masks in `row`, the processed logits (or their log-probabilities) of the token behind `output`:
// the token that says there are no times; what breaks pairs of times, which stand at the end and
// the beginning of texts; times before the last one; at first, all but early times. Where the times
// that are left are more likely together than any text, the texts are masked too.
void mask_by_timestamps(const proto::TimestampRules& rules, std::span<const int32_t> output,
                        std::span<float> row);

}  // namespace tandem
