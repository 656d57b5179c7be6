// Sequence groups for tests of the scheduler and the block manager.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/scheduling/sequence.h"

namespace tandem::testing_support {

struct GroupSpec {
  std::string request_id = "r";
  std::vector<int64_t> seq_ids = {0};
  int encoder_len = 3;
  int prompt_len = 2;
  int max_tokens = 4;
  double arrival_time = 0;
  int priority = 0;
  // A resumed group: what each sequence has emitted, and their places in the group; else none, and
  // 0, 1, ...
  std::vector<std::vector<int32_t>> emitted = {};
  std::vector<int> indices = {};
  // Equal numbers: equal tokens (and lengths apart, prefixes of each other). Prompts differ behind
  // their first four tokens only.
  int source = 0;
  int prompt = 0;
  bool beams = false;   // one sequence each
  bool pooled = false;  // one sequence; prompt_len and max_tokens do not matter
  std::string cache_salt = {};
  uint64_t adapter = 0;
  bool prompt_logprobs = false;
};

// Decoder prompt token j is 10 + j, encoder token j of the group is 1000 + j; more for other
// sources and prompts.
inline std::unique_ptr<SequenceGroup> make_group(const GroupSpec& spec) {
  EncoderDecoderInputs inputs;
  for (int j = 0; j < spec.encoder_len; ++j)
    inputs.add_encoder_prompt_token_ids(1000 * (spec.source + 1) + j);
  for (int j = 0; j < spec.prompt_len && !spec.pooled; ++j)
    inputs.add_prompt_token_ids(10 + j + (j < 4 ? 0 : 100 * spec.prompt));
  std::vector<std::unique_ptr<Sequence>> seqs;
  for (size_t i = 0; i < spec.seq_ids.size(); ++i) {
    const int index = spec.indices.empty() ? static_cast<int>(i) : spec.indices.at(i);
    seqs.push_back(std::make_unique<Sequence>(spec.seq_ids[i], inputs, true, index));
    if (spec.emitted.empty()) continue;
    for (const int32_t token : spec.emitted.at(i)) seqs.back()->append_token(token);
  }
  auto encoder = std::make_unique<Sequence>(spec.seq_ids.front() + 1'000'000, inputs, false);
  SamplingParams params;
  params.set_cache_salt(spec.cache_salt);
  if (spec.prompt_logprobs) params.set_prompt_logprobs(0);
  if (spec.adapter > 0) params.mutable_adapter()->set_id(spec.adapter);
  params.set_n(static_cast<int32_t>(spec.seq_ids.size()));
  if (spec.beams) params.set_num_beams(static_cast<int32_t>(spec.seq_ids.size()));
  if (spec.pooled)
    params.mutable_pooling();
  else
    params.set_max_tokens(spec.max_tokens);
  return std::make_unique<SequenceGroup>(spec.request_id, std::move(seqs), std::move(encoder),
                                         std::move(params), spec.arrival_time, spec.priority);
}

}  // namespace tandem::testing_support
