#include "runtime/scheduling/group_ends.h"

namespace tandem {

void GroupEnds::finish(QueuedGroup& queued, Sequence& seq, SequenceStatus status) {
  seq.set_status(status);
  seq.drop_pending();
  speculator_.forget(seq);
  blocks_.free(seq);
  if (queues_.sequence_finished(queued)) return;
  if (queued.known_to_workers && queued.group->beams() == nullptr)
    writer_.forget_sequence(seq.seq_id());
}

void GroupEnds::finish_search(QueuedGroup& queued) {
  for (const auto& beam : queued.group->seqs())
    finish(queued, *beam, SequenceStatus::kFinishedStopped);
}

void GroupEnds::drop(QueuedGroup& queued) {
  for (const auto& seq : queued.group->seqs()) speculator_.forget(*seq);
  blocks_.free_all(*queued.group);
  if (queued.known_to_workers) writer_.forget_group(queued.group->request_id());
  queues_.drop(queued);
}

}  // namespace tandem
