// The Python names that a pickle may hold.
#pragma once

#include <optional>
#include <string_view>

#include "models/checkpoint/pickle_machine.h"

namespace tandem::pickle {

// Nothing for a refused name. Accepted are names that torch.load(weights_only=True) takes and
// checkpoints have.
std::optional<Global> find_global(std::string_view module, std::string_view name);

}  // namespace tandem::pickle
