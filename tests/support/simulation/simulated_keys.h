// What a simulated model computes: keys, and tokens that are a pure function of everything that
// attention reads. So what a request should get is known in advance.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/engine/states/sequence_output.h"
#include "runtime/request/request_processor.h"
#include "runtime/scheduling/scheduler_config.h"
#include "tests/support/simulation/simulated_world.h"

namespace tandem::testing_support {

inline constexpr int kSimulatedVocab = 259;  // FakeTokenizer's

inline uint64_t key_of(uint64_t seed, int kind, int position, int32_t token) {
  return mix(mix(seed, static_cast<uint64_t>(kind * 100'000 + position)),
             static_cast<uint64_t>(token));
}
// Keys of the encoder (kind 1) and of the decoder (kind 0) depend on the request, unless they may
// be shared with others that have the same tokens. Ranks that run encoders alone are not told of
// the request.
inline uint64_t salt_of(const SchedulerConfig& config, int kind,
                        const proto::SamplingParams& params) {
  const bool shared = kind == 1 ? config.enable_encoder_cache || config.encoder_ranks > 0
                                : config.enable_prefix_caching;
  return shared ? 0 : params.seed();
}
// Few letters, so that stop strings occur; bytes of unfinished characters, special tokens and EOS.
inline int32_t token_of(uint64_t hash, const SchedulerConfig& config, int32_t previous) {
  // Where there are drafts, most letters can be guessed.
  if (config.speculation.num_tokens > 0 && (hash >> 40) % 6 != 0) return 3 + 'a' + previous * 5 % 8;
  const auto r = static_cast<int32_t>((hash >> 7) % 48);
  switch (r) {
    case 0: return 2;
    case 1: return 3 + 0xC3;
    case 2: return 3 + 0xA9;
    case 3: return 0;
    default: return 3 + 'a' + r % 8;
  }
}

inline proto::SequenceOutput sample_of(const proto::SamplingParams& params, int64_t seq_id,
                                       int32_t token) {
  proto::SequenceOutput out;
  out.set_seq_id(seq_id);
  out.set_token_id(token);
  out.set_logprob(static_cast<float>(token % 7) * -0.5f);
  if (params.has_logprobs()) {
    auto& top = *out.mutable_logprobs()->add_top();
    top.set_token_id(token);
    top.set_logprob(out.logprob());
  }
  return out;
}

// What sequence `index` of a request is when nothing goes wrong.
inline proto::CompletionOutput undisturbed_output(const PreparedRequest& request, int index,
                                                  const Tokenizer& tokenizer,
                                                  const SchedulerConfig& config) {
  const uint64_t cross_salt = salt_of(config, 1, request.params);
  const uint64_t self_salt = salt_of(config, 0, request.params);
  proto::CompletionOutput output;
  output.set_index(index);
  const auto& ids = request.inputs.prompt_token_ids();
  const std::span<const int32_t> prompt(ids.data(), static_cast<size_t>(ids.size()));
  SequenceOutputState state(output, tokenizer, request.params, prompt);
  uint64_t hash = mix(request.params.seed(), static_cast<uint64_t>(index));
  const auto& encoder = request.inputs.encoder_prompt_token_ids();
  for (int p = 0; p < encoder.size(); ++p) hash = mix(hash, key_of(cross_salt, 1, p, encoder[p]));
  int position = 0;
  for (const int32_t token : request.inputs.prompt_token_ids())
    hash = mix(hash, key_of(self_salt, 0, position++, token));
  int32_t token = *request.inputs.prompt_token_ids().rbegin();
  while (!state.finished()) {
    token = token_of(hash, config, token);
    state.append(sample_of(request.params, 0, token));
    hash = mix(hash, key_of(self_salt, 0, position++, token));
  }
  return output;
}

// encoder: any list of token ids.
template <class Ids>
proto::Embedding undisturbed_embedding(const Ids& encoder, const proto::SamplingParams& params) {
  uint64_t hash = params.seed();
  for (const int32_t token : encoder) hash = mix(hash, static_cast<uint64_t>(token));
  proto::Embedding out;
  out.add_values(static_cast<float>(hash % 1'000'003));
  return out;
}

}  // namespace tandem::testing_support
