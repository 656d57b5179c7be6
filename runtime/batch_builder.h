// SequenceGroupMetadata → the flat arrays of a step (models/attention_metadata.h).
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "models/attention_metadata.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// A worker's copy of the groups it knows: full metadata once, deltas after.
class SequenceTable {
 public:
  // Applies a step's news, and returns the groups scheduled in it, in the order of the message
  // (groups, then deltas). Throws std::runtime_error naming the field if the message is inconsistent
  // (unknown group or sequence, chunk beyond the tokens that are known, table too short).
  std::vector<proto::SequenceGroupMetadata*> apply(const proto::StepInput& step);

  // After the step: advances num_computed_tokens by the chunk.
  void advance(const std::vector<proto::SequenceGroupMetadata*>& scheduled);
  void append_token(proto::SequenceGroupMetadata& group, int64_t seq_id, int32_t token);
  size_t size() const { return groups_.size(); }
  void check_integrity() const;

 private:
  std::unordered_map<std::string, std::unique_ptr<proto::SequenceGroupMetadata>> groups_;
};

// Rows of the batch whose logits are needed.
struct SampleRow {
  const proto::SequenceGroupMetadata* group;
  int seq_index;        // into seq_data
  int32_t first_token;  // row of the sequence's first scheduled token in ModelInput::input_ids
  int32_t num_tokens;   // its chunk
  bool samples;         // the chunk ends at the last known token: the last row is sampled
};

struct Batch {
  ModelInput input;
  std::vector<SampleRow> rows;  // one per scheduled sequence, in the order of input's requests
};

// block_size > 0. The worked example (three requests, block size 2, budget 10) is
// tests/runtime/batch_builder_test.cc.
Batch build_batch(const std::vector<proto::SequenceGroupMetadata*>& scheduled, int block_size);

}  // namespace tandem
