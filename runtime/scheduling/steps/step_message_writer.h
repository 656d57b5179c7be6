// From a step to the message that workers get: groups in full, deltas, block copies, and what they
// may forget (docs/design/scheduling.md §6).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/scheduling/blocks/block_tables.h"
#include "runtime/scheduling/steps/planned_step.h"

namespace tandem {

// False if there is nothing in the step that workers must hear of now.
bool has_work(const proto::StepInput& step);

// The encoder's input; its values only if it is to be computed.
void write_encoder(const SequenceGroup& group, bool compute, proto::SequenceData& data);

class StepMessageWriter {
 public:
  // `tables` must outlive it.
  explicit StepMessageWriter(const BlockTables& tables) : tables_(tables) {}

  // Into an empty message, but for the step's number. Its groups count as announced from now on.
  // False if the step has no work.
  bool write(const PlannedStep& step, proto::StepInput& message);
  // Workers hear with the next step that has work that these have ended.
  void forget_group(const std::string& request_id) { forgotten_groups_.push_back(request_id); }
  void forget_sequence(int64_t seq_id) { forgotten_seqs_.push_back(seq_id); }

 private:
  void write_full(const PlannedStep::Group& group, proto::SequenceGroupMetadata& out) const;
  void write_sequence(const PlannedStep::Group& group, const Sequence& seq,
                      proto::SequenceGroupMetadata& out) const;
  void write_delta(const PlannedStep::Group& group, proto::SequenceGroupDelta& out) const;
  bool write_beam_news(const SequenceGroup& group, const SequenceChunk& chunk,
                       proto::SequenceDelta& delta) const;

  const BlockTables& tables_;
  std::vector<std::string> forgotten_groups_;
  std::vector<int64_t> forgotten_seqs_;
};

}  // namespace tandem
