// A worker's answers, as tests write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/protocol/tandem.pb.h"

namespace tandem::testing_support {

struct SampledToken {
  std::string request_id;
  int64_t seq_id;
  int32_t token;
  // With the first one of a sequence whose drafts the worker made: what they are.
  std::optional<std::vector<int32_t>> drafts = {};
};

struct PooledSequence {
  std::string request_id;
  int64_t seq_id;
};

// The answer to a step. Each token and each vector is an output of its own.
inline proto::StepOutput answer_of(uint64_t step, const std::vector<SampledToken>& sampled,
                                   const std::vector<PooledSequence>& pooled = {}) {
  proto::StepOutput out;
  out.set_step(step);
  for (const SampledToken& token : sampled) {
    auto& group = *out.add_outputs();
    group.set_request_id(token.request_id);
    group.set_seq_id(token.seq_id);
    group.add_samples()->set_seq_id(token.seq_id);
    group.mutable_samples(0)->set_token_id(token.token);
    if (!token.drafts) continue;
    auto& drafts = *group.mutable_samples(0)->mutable_drafts()->mutable_token_ids();
    drafts.Add(token.drafts->begin(), token.drafts->end());
  }
  for (const PooledSequence& one : pooled) {
    auto& group = *out.add_outputs();
    group.set_request_id(one.request_id);
    group.set_seq_id(one.seq_id);
    group.mutable_embedding()->add_values(1);
  }
  return out;
}

}  // namespace tandem::testing_support
