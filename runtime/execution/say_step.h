// A step in the profile.
#pragma once

#include "base/profile/profile.h"
#include "runtime/execution/batch_builder.h"

namespace tandem {

// Adds to `span` what the step does, "encode", "prefill", "decode" and "verify" with "+" between,
// and how much of it. Before its chunks count as computed.
void say_step(ProfileSpan& span, const Batch& batch);

}  // namespace tandem
