// Logits → tokens, as HuggingFace's generate() does it: processors in its order, then greedy argmax
// or sampling. A sequence's result depends on its own logits, history and seed only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// What the processors see of one sequence.
struct SamplerSequence {
  const proto::SamplingParams* params = nullptr;
  std::span<const int32_t> encoder_ids;
  std::span<const int32_t> prompt_ids;   // decoder prompt
  std::span<const int32_t> output_ids;   // generated so far
  uint32_t seq_index = 0;                // index within the group, mixed into the seed
};

// Logits processors in HuggingFace's order, in place; masked entries become -inf.
void process_logits(const SamplerSequence& seq, std::span<float> logits);
// Temperature, top-k, top-p, min-p over processed logits, in HuggingFace's order; in place.
void warp_logits(const proto::SamplingParams& params, std::span<float> logits);

// One token for one sequence, and its log-probabilities from the raw logits. `logits` is overwritten.
proto::SequenceOutput sample(const SamplerSequence& seq, std::span<float> logits);

// log softmax of the token, and its rank and the k most likely ones: first the token, then the top k.
proto::TokenLogprobs token_logprobs(std::span<const float> logits, int32_t token, int k);

}  // namespace tandem
