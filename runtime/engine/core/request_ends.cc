#include "runtime/engine/core/request_ends.h"

#include "runtime/request/request_error.h"

namespace tandem {

// From wherever it is; the scheduler forgets it, if it has it.
void RequestEnds::leave(RequestRecord& record) {
  if (record.stage == RequestStage::kHeld) intake_.drop_held(record);
  if (record.stage == RequestStage::kRunning || record.stage == RequestStage::kSuspect)
    replicas_.leave(record);
}

void RequestEnds::finish(RequestRecord& record, double now) {
  leave(record);
  intake_.leave(record, !record.error, now);
  streams_.end(record, now);
}

void RequestEnds::fail(RequestRecord& record, const InputError& error, double now) {
  record.error = to_proto(error);
  finish(record, now);
}

void RequestEnds::cancel(RequestRecord& record, double now) {
  leave(record);
  intake_.leave(record, /*completed=*/false, now);
  erase(record);
}

void RequestEnds::erase(RequestRecord& record) {
  streams_.detach(record);
  records_.erase(record);
}

}  // namespace tandem
