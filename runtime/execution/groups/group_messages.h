// From a step's messages to a worker's copy of a group: the one place where the two meet.
#pragma once

#include "runtime/execution/groups/group_checks.h"
#include "runtime/execution/groups/worker_group.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// The group as a message has it in full. Throws MessageError if it cannot be.
WorkerGroup group_of(const proto::SequenceGroupMetadata& message, const SequenceLimits& limits);
// The group with the news of a step. Throws MessageError; the group may be used no more then.
void apply_delta(const proto::SequenceGroupDelta& delta, const SequenceLimits& limits,
                 WorkerGroup& group);

}  // namespace tandem
