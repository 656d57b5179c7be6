// Logits processors on the host: the arithmetic of select()'s edits and histories, shared by the
// CPU's op and the host's sampler (runtime/sampling).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/sampling_ops.h"

namespace tandem {

// x after the edit.
float edited(ops::LogitEdit edit, float x, float value);

// The penalties of a history (RowHistory: repetition, presence, frequency), once for each distinct
// token of the sequence. Tokens outside the row are ignored.
void penalise_tokens(const ops::RowHistory& history, std::span<const int32_t> tokens,
                     std::span<float> row);

// Masks tokens that would complete an n-gram of the sequence for the second time
// (RowHistory::ngram_size).
void mask_ngrams(const ops::RowHistory& history, std::span<const int32_t> tokens,
                 std::span<float> row);

}  // namespace tandem
