// The scheduler's view of a request.
#pragma once

#include <memory>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/scheduling/sequence.h"

namespace tandem {

// Throws InputError if a field makes no sense.
std::unique_ptr<SequenceGroup> make_sequence_group(const proto::AddRequest& request);

}  // namespace tandem
