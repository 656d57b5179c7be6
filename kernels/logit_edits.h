// What logits processors do to a row on the host: the arithmetic of select()'s edits and histories,
// once for the CPU's op and for the host's sampler (runtime/sampling).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/sampling_ops.h"

namespace tandem {

// What the edit makes of x.
float edited(ops::LogitEdit edit, float x, float value);

// The penalties of a history (RowHistory: repetition, presence, frequency), once for each distinct
// token of the sequence; those outside of the row are passed over.
void penalise_tokens(const ops::RowHistory& history, std::span<const int32_t> tokens,
                     std::span<float> row);

// Masks what would complete an n-gram of the sequence for the second time (RowHistory::ngram_size).
void mask_ngrams(const ops::RowHistory& history, std::span<const int32_t> tokens,
                 std::span<float> row);

}  // namespace tandem
