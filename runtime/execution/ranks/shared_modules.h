// What adapters can change, where each rank has a part of the model.
#pragma once

#include "models/adapters/adapter_store.h"
#include "parallel/communicators/communicator.h"

namespace tandem {

// Tells all ranks of the model what this one has, and `adapters` what the others have: a rank
// refuses an adapter for what none of them has. All ranks call it, before the first adapter.
void share_modules(Communicator& group, AdapterStore& adapters);

}  // namespace tandem
