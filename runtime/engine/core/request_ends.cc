#include "runtime/engine/core/request_ends.h"

#include <utility>

#include "runtime/request/request_error.h"

namespace tandem {

// From wherever it is; the scheduler forgets it, if it has it.
void RequestEnds::leave(RequestRecord& record, double now) {
  if (record.stage == RequestStage::kHeld) intake_.drop_held(record);
  if (record.stage == RequestStage::kRunning || record.stage == RequestStage::kSuspect)
    replicas_.leave(record);
  if (record.stage != RequestStage::kParts) return;
  record.stage = RequestStage::kMoving;
  records_.end_sound(record.composite->seconds());
  record.composite->stop();
  for (const auto& [number, part] : std::exchange(record.parts, {})) cancel(*part, now);
}

void RequestEnds::finish(RequestRecord& record, double now) {
  leave(record, now);
  intake_.leave(record, record.error ? Intake::End::kFailed : Intake::End::kCompleted, now);
  if (record.parent != nullptr) {
    record.stage = RequestStage::kDone;
    ended_parts_.push_back(&record);
  } else {
    streams_.end(record, now);
  }
}

void RequestEnds::fail(RequestRecord& record, const InputError& error, double now) {
  record.error = to_proto(error);
  finish(record, now);
}

void RequestEnds::cancel(RequestRecord& record, double now) {
  // A part that has ended, and of which nothing has been made yet, has left already.
  if (record.stage != RequestStage::kDone) {
    leave(record, now);
    intake_.leave(record, Intake::End::kLeft, now);
  }
  erase(record);
}

void RequestEnds::erase(RequestRecord& record) {
  if (record.parent == nullptr)
    streams_.detach(record);
  else
    std::erase(ended_parts_, &record);
  records_.erase(record);
}

}  // namespace tandem
