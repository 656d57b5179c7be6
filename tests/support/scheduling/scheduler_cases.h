// Short words for tests of the scheduler's policy.
#pragma once

#include <string>
#include <vector>

#include "tests/support/scheduling/engine_loop.h"

namespace tandem::testing_support {

// "a:3" for three decoder tokens of request a, "a:e5" for its encoder of five; sequences of one
// group in a row, in the order of the message.
inline std::vector<std::string> work(const proto::StepInput& step) {
  std::vector<std::string> out;
  for (const auto& group : step.groups()) {
    if (group.compute_encoder())
      out.push_back(group.request_id() + ":e" +
                    std::to_string(group.encoder_seq_data().token_chunk_size()));
    for (const auto& seq : group.seq_data())
      if (seq.token_chunk_size() > 0)
        out.push_back(group.request_id() + ":" + std::to_string(seq.token_chunk_size()));
  }
  for (const auto& group : step.deltas())
    for (const auto& seq : group.seqs())
      out.push_back(group.request_id() + ":" + std::to_string(seq.token_chunk_size()));
  return out;
}

inline SchedulerConfig config(int budget, int blocks, int block_size = 2) {
  return {.max_num_seqs = 8,
          .max_num_batched_tokens = budget,
          .block_size = block_size,
          .num_device_blocks = blocks};
}

// Two groups that can start together, but not end together: 3 + 3 cross blocks and up to 6 self
// blocks each in a pool of 12.
inline SchedulerConfig tight(PreemptionMode mode, int host_blocks) {
  auto c = config(100, 12, 1);
  c.preemption = mode;
  c.num_host_blocks = host_blocks;
  return c;
}
inline void add_two(EngineLoop& loop) {
  loop.add({.request_id = "a", .seq_ids = {1}, .encoder_len = 3, .prompt_len = 2, .max_tokens = 5});
  loop.add({.request_id = "b", .seq_ids = {2}, .encoder_len = 3, .prompt_len = 2, .max_tokens = 5});
}

}  // namespace tandem::testing_support
