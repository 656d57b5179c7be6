// The encoder alone: last hidden states and embeddings, ragged batches under a token budget.
#pragma once

#include <span>
#include <vector>

#include "models/model.h"

namespace tandem {

// Last hidden states [tokens, d_model] of each sequence, in order. Every sequence has at least one
// token. Sequences share batches of at most max_batched_tokens tokens (a longer one runs alone).
std::vector<Tensor> encode_sequences(Model& model, std::span<const std::vector<int32_t>> sequences,
                                     int max_batched_tokens);

// Mean over the rows: [d_model].
std::vector<float> mean_pool(const Tensor& states);

}  // namespace tandem
