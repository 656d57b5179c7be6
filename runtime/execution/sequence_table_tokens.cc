// Sampled tokens of a SequenceTable, known and not yet known.
#include "base/check.h"
#include "runtime/execution/batch_builder.h"

namespace tandem {

namespace {

proto::SequenceData* find_sequence(proto::SequenceGroupMetadata& group, int64_t seq_id) {
  for (proto::SequenceData& seq : *group.mutable_seq_data())
    if (seq.seq_id() == seq_id) return &seq;
  return nullptr;
}

}  // namespace

void SequenceTable::append_token(Metadata& group, int64_t seq_id, int32_t token) {
  proto::SequenceData* const seq = find_sequence(group, seq_id);
  TANDEM_CHECK(seq != nullptr, "the group does not have the sequence");
  seq->add_output_token_ids(token);
}

SequenceTable::PendingToken SequenceTable::append_pending(Metadata& group, int64_t seq_id,
                                                          int32_t id) {
  TANDEM_CHECK_LT(id, 0);
  append_token(group, seq_id, id);
  const Known& known = groups_.at(group.request_id());
  return {group.request_id(), seq_id, find_sequence(group, seq_id)->output_token_ids_size() - 1,
          known.incarnation};
}

void SequenceTable::know(const PendingToken& pending, int32_t token) {
  const auto known = groups_.find(pending.request_id);
  if (known == groups_.end() || known->second.incarnation != pending.incarnation) return;
  proto::SequenceData* const seq = find_sequence(known->second.metadata, pending.seq_id);
  if (seq == nullptr) return;
  TANDEM_CHECK_LT(pending.index, seq->output_token_ids_size());
  TANDEM_CHECK_LT(seq->output_token_ids(pending.index), 0);
  seq->set_output_token_ids(pending.index, token);
}

}  // namespace tandem
