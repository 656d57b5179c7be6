// SequenceGroupMetadata → the flat arrays of a step (models/step/attention_metadata.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "models/step/attention_metadata.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// What a worker's messages are checked against.
struct SequenceLimits {
  int block_size = 0;
  int num_device_blocks = 0;
  int num_host_blocks = 0;
  int vocab_size = 0;           // token ids are below; 0: not checked
  int max_encoder_positions = 0;  // 0: not checked
  int max_decoder_positions = 0;
  bool searches_beams = false;  // groups may have beams_ahead
};

// A worker's copy of the groups it knows: full metadata once, deltas after. Messages may come from
// another process: whatever they hold, they are applied or refused.
class SequenceTable {
 public:
  using Metadata = proto::SequenceGroupMetadata;

  explicit SequenceTable(const SequenceLimits& limits);

  // Applies a step's news, and returns the groups scheduled in it, in the order of the message
  // (groups, then deltas); the pointers are good until the next apply(). What is finished and not
  // known is ignored. Call it before blocks are moved: swap and copy lists are checked as well.
  // Throws std::runtime_error naming the field if the message is inconsistent (unknown group or
  // sequence, chunk beyond the tokens that are known, table too short, block out of range). Then
  // the group at fault is forgotten, and of the message's other groups any may have been applied.
  std::vector<Metadata*> apply(const proto::StepInput& step);

  // After the step: advances num_computed_tokens by the chunk, also the encoder's.
  void advance(const std::vector<Metadata*>& scheduled);
  // A token was sampled for a sequence of the group, which must have it.
  void append_token(Metadata& group, int64_t seq_id, int32_t token);
  // The same for a token that only a device knows so far; `id` < 0 stands for it until know() says
  // which it is. By then the sequence may have gone, or come again.
  struct PendingToken {
    std::string request_id;
    int64_t seq_id = 0;
    int index = 0;  // of the output token
    uint64_t incarnation = 0;
  };
  PendingToken append_pending(Metadata& group, int64_t seq_id, int32_t id);
  void know(const PendingToken& pending, int32_t token);

  // A round of a group with beams_ahead was launched. Its beams may have changed places by the next
  // one: what is here of their tokens but the last, and of their full blocks, is void from now on.
  // In place of the first `pages` blocks of beam i comes reference(i, page), below 0. In the first
  // round the others come to be where sequence 0 is.
  void go_on(Metadata& group, int pages, const std::function<int32_t(int, int)>& reference);
  // Sequences that have gone, or have come anew, since the last call.
  std::vector<int64_t> take_forgotten() { return std::exchange(forgotten_, {}); }
  size_t size() const { return groups_.size(); }
  // Ids, tables and counters agree, in every group.
  void check_integrity() const;

 private:
  struct Known {
    Metadata metadata;
    bool goes_on = false;      // go_on() was called
    uint64_t last_step = 0;    // of apply(), that scheduled it
    uint64_t incarnation = 0;  // the step whose full metadata it began with
  };

  void forget(const std::string& request_id);
  void forget_sequence(int64_t seq_id);
  Metadata& apply_full(const Metadata& news);
  Metadata& apply_delta(const proto::SequenceGroupDelta& delta);
  using SequenceList = google::protobuf::RepeatedPtrField<proto::SequenceData>;
  int apply_sequence(const proto::SequenceDelta& delta, int at, int hint,
                     const SequenceList& before, Metadata& group);
  void apply_beam(const proto::SequenceDelta& delta, int at, const SequenceList& before,
                  proto::SequenceData& seq, google::protobuf::RepeatedField<int32_t>& blocks);

  SequenceLimits limits_;
  uint64_t step_ = 0;                              // number of apply() calls
  std::unordered_map<std::string, Known> groups_;  // by request id
  std::unordered_map<int64_t, Known*> owners_;     // by sequence id
  std::vector<int64_t> forgotten_;
};

// Rows of the batch whose logits are needed.
struct SampleRow {
  const proto::SequenceGroupMetadata* group;
  int seq_index;        // into seq_data; its place in the group, for seeds, is seq_data(i).index()
  int32_t first_token;  // row of the sequence's first scheduled token in ModelInput::input_ids
  int32_t num_tokens;   // its chunk
  bool samples;         // the chunk ends at the last known token: the last row is sampled
};

// Rows of the encoder's output that are pooled.
struct PooledRows {
  const proto::SequenceGroupMetadata* group;
  int32_t first, end;
};

struct Batch {
  ModelInput input;
  std::vector<SampleRow> rows;  // one per scheduled sequence, in the order of input's requests
  // Encoder inputs that are pooled lie behind the others, and have no slots.
  std::vector<PooledRows> pooled;
};

// The slot of the KV cache, block * block_size + offset, where a token's keys and values lie.
// position < block_size * |blocks|.
int32_t slot_of(const google::protobuf::RepeatedField<int32_t>& blocks, int position,
                int block_size);

// block_size > 0; the groups as SequenceTable::apply() returned them. The worked example (three
// requests, block size 2, budget 10) is tests/runtime/execution/batch_builder_test.cc.
Batch build_batch(const std::vector<proto::SequenceGroupMetadata*>& scheduled, int block_size);

}  // namespace tandem
