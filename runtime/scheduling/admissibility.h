// Whether a group could ever run (docs/design/scheduling.md §5).
#pragma once

#include "runtime/scheduling/scheduler_config.h"
#include "runtime/scheduling/sequence.h"

namespace tandem {

// Throws InputError (kResource) with the numbers if the group could never run. Its encoder sequence
// and its longest decoder sequences by max_tokens must fit the pool; n must fit max_num_seqs.
// kInvalidRequest for an empty prompt or max_tokens < 1.
void check_admissible(const SequenceGroup& group, const SchedulerConfig& config);

}  // namespace tandem
