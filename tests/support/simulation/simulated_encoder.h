// A rank of a simulated group that runs encoders for the others: a real SequenceTable, pages of its
// own, and what it sends of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/execution/batch_builder.h"
#include "runtime/execution/groups/sequence_table.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/simulation/simulated_keys.h"
#include "tests/support/simulation/simulated_world.h"

namespace tandem::testing_support {

// Keys of a source, by position.
struct SimulatedLetter {
  int64_t seq_id = 0;
  std::vector<uint64_t> keys;
};

class SimulatedEncoder {
 public:
  explicit SimulatedEncoder(const SchedulerConfig& config)
      : config_(config),
        blocks_(std::max(config.num_device_blocks, EncoderSteps::kTokensOfStep)),
        table_({.block_size = config.block_size, .num_device_blocks = blocks_}),
        pages_(static_cast<size_t>(blocks_ * config.block_size)) {}

  // letters: what is sent to each of the decoders' ranks.
  proto::StepOutput run(const proto::StepInput& step, std::vector<SimulatedLetter>& letters) {
    const auto scheduled = table_.apply(step);
    proto::StepOutput out;
    out.set_step(step.step());
    for (const WorkerGroup* group : scheduled) {
      SIM_CHECK(group->compute_encoder, "encoders have nothing else to do");
      proto::SequenceGroupOutput& answer = *out.add_outputs();
      answer.set_request_id(group->request_id);
      answer.set_seq_id(group->seqs[0].seq_id);
      if (group->pools())
        *answer.mutable_embedding() = undisturbed_embedding(group->encoder.tokens, group->params);
      else
        encode(*group);
    }
    // Behind all of them: sources that share a block are found.
    for (const WorkerGroup* group : scheduled)
      if (!group->pools()) letters.push_back(letter_of(*group));
    table_.advance(scheduled);
    return out;
  }
  void check_integrity() const { table_.check_integrity(); }

 private:
  uint64_t& key_at(const WorkerGroup& group, int position) {
    return pages_.at(
        static_cast<size_t>(slot_of(group.encoder.blocks, position, config_.block_size)));
  }
  void encode(const WorkerGroup& group) {
    int position = 0;
    for (const int32_t token : group.encoder.tokens) {
      key_at(group, position) = key_of(salt_of(config_, 1, group.params), 1, position, token);
      ++position;
    }
  }
  SimulatedLetter letter_of(const WorkerGroup& group) {
    SimulatedLetter letter{group.encoder.seq_id, {}};
    for (int p = 0; p < std::ssize(group.encoder.tokens); ++p)
      letter.keys.push_back(key_at(group, p));
    return letter;
  }

  SchedulerConfig config_;
  int blocks_;
  SequenceTable table_;
  std::vector<uint64_t> pages_;
};

}  // namespace tandem::testing_support
