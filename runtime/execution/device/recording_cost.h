// What recorded steps take of a device's memory, before there is a cache beside them.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/core/context.h"
#include "models/model.h"
#include "runtime/execution/engine_config.h"

namespace tandem {

struct RecordingCost {  // bytes
  size_t at_start = 0;  // of those that are made before the first request
  size_t later = 0;     // of others, that requests bring: room is kept for some
  size_t all() const { return at_start + later; }
};

// `sizes`: recorded_sizes(). Nothing on a CPU, or where nothing is recorded. Of one rank: steps of
// the first size and of the last are computed and recorded over a cache of one block, and the
// others are taken to be as large as the last one's, which are the most (without logits too). Of a
// group, whose ranks load at times of their own, an assumption.
RecordingCost cost_of_recordings(Context& ctx, Model& model, const EngineConfig& config,
                                 std::span<const int> sizes, int ranks);

}  // namespace tandem
