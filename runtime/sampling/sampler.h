// Logits → tokens, as HuggingFace's generate() does it: processors in its order, then greedy argmax
// or sampling. A sequence's result depends on its own logits, history and seed only.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/sampling/logits_processors.h"

namespace tandem {

// The log-probability of a constrained row's token where processors left none to choose.
constexpr float kNothingLeft = -std::numeric_limits<float>::infinity();

// One token for one sequence; for a beam, its candidates. params.seed must be set.
// Log-probabilities come from the raw logits; with processed_logprobs, the token's own comes from
// the processed ones. `logits` is overwritten.
proto::SequenceOutput sample(const SamplerSequence& seq, std::span<float> logits);

// Whether sample() looks at more than the best logit and their log-sum.
bool needs_logits(const SamplerSequence& seq);

// A row of a beam: the best num_beam_candidates() (beam_search.h) of its processed log softmax;
// `logits` is overwritten.
proto::BeamCandidates beam_candidates(const SamplerSequence& seq, std::span<float> logits);

// log softmax of the token, and its rank and the k most likely ones: first the token, then the top
// k.
proto::TokenLogprobs token_logprobs(std::span<const float> logits, int32_t token, int k);

}  // namespace tandem
