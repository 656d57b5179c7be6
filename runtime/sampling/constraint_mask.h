// What a request says that its text has to be (params.constraint()), as a mask over a row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/sampling/logits_processors.h"

namespace tandem {

// Masks entries of `row`, the processed logits or log-probabilities of the token behind
// seq.output_ids, of which a forced BOS is no part of the text. End tokens are left where the text
// may end. A sequence that is no beginning of a text, as beams are that have nothing left, may end
// only.
void mask_by_constraint(const SamplerSequence& seq, std::span<float> row);
// The same as bits, for devices (ops::SelectArgs::masks): a word for each 32 tokens; 1: it stays.
std::vector<uint32_t> constraint_bits(const SamplerSequence& seq, int64_t vocabulary);

}  // namespace tandem
