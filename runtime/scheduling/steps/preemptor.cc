#include "runtime/scheduling/steps/preemptor.h"

#include <utility>

#include "base/check.h"

namespace tandem {

void Preemptor::preempt(QueuedGroup& queued, StepDraft& draft) {
  TANDEM_CHECK_LT(queued.draft_index, 0);
  SequenceGroup& group = *queued.group;
  ++count_;
  ++group.num_preemptions;
  proto::RequestPreempted& preempted = preempted_.emplace_back();
  preempted.set_request_id(group.request_id());
  preempted.set_seq_id(group.seqs()[0]->seq_id());
  group.set_announced(false);  // it comes back with other blocks
  if (prefers_swap(group) && blocks_.can_swap_out(group)) {
    const BlockPairs pairs = blocks_.swap_out(group);
    draft.swap_out.insert(draft.swap_out.end(), pairs.begin(), pairs.end());
    queues_.move_to(queued, QueuedGroup::Queue::kSwapped);
    return;
  }
  recompute(group);
  queues_.move_to(queued, QueuedGroup::Queue::kWaiting);
}

void Preemptor::recompute(SequenceGroup& group) {
  blocks_.free_all(group);
  group.set_encoder_computed(false);
  for (const auto& seq : group.seqs())
    if (!seq->finished()) seq->reset_computed();
  if (BeamState* beams = group.beams()) {  // all of them are computed anew
    ++beams->epoch;
    for (auto& candidates : beams->candidates) candidates.clear();
    for (const auto& seq : group.seqs()) seq->drop_pending();
  }
}

// The cost model of PreemptionMode::kAuto, in units of the time to compute one token. Swapping
// moves whole blocks out and back; recomputing runs the encoder and all decoder tokens again.
bool Preemptor::prefers_swap(const SequenceGroup& group) const {
  if (config_.preemption != PreemptionMode::kAuto)
    return config_.preemption == PreemptionMode::kSwap;
  int64_t recomputed = group.encoder_seq().length();
  for (const auto& seq : group.seqs())
    if (!seq->finished()) recomputed += seq->num_computed_tokens();
  const int64_t moved = int64_t{blocks_.tables().num_blocks(group)} * config_.block_size;
  return config_.swap_cost * static_cast<double>(moved) < static_cast<double>(recomputed);
}

std::vector<proto::RequestPreempted> Preemptor::take() { return std::exchange(preempted_, {}); }

}  // namespace tandem
