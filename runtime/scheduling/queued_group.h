// A group with its place in the scheduler.
#pragma once

#include <cstdint>
#include <memory>

#include "runtime/scheduling/sequence.h"

namespace tandem {

struct QueuedGroup {
  enum class Queue : uint8_t { kWaiting, kRunning, kSwapped, kFinished };

  std::unique_ptr<SequenceGroup> group;
  uint64_t ticket = 0;  // order of arrival, among equals
  Queue queue = Queue::kWaiting;
  bool known_to_workers = false;
  bool dropped = false;     // it is in no queue: steps in flight refer to it
  int steps_in_flight = 0;  // those that it is in
  int draft_index = -1;     // into StepDraft::groups(), while a step is being scheduled
};

}  // namespace tandem
