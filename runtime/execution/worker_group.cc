#include "runtime/execution/worker_group.h"

namespace tandem {

WorkerSequence* WorkerGroup::find(int64_t seq_id) {
  for (WorkerSequence& seq : seqs)
    if (seq.seq_id == seq_id) return &seq;
  return nullptr;
}

}  // namespace tandem
