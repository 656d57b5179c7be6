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

// `sizes`: recorded_sizes(). Nothing on a CPU, or where nothing is recorded. One rank measures: it
// records steps of the first and of the last size over a cache of one block. The other sizes count
// as the last one, which is the largest (without logits too). A group, whose ranks load at
// different times, assumes a value.
RecordingCost cost_of_recordings(Context& ctx, Model& model, const EngineConfig& config,
                                 std::span<const int> sizes, int ranks);

}  // namespace tandem
