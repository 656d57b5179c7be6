// The names of Python's that a pickle may hold.
#pragma once

#include <optional>
#include <string_view>

#include "models/checkpoint/pickle_machine.h"

namespace tandem::pickle {

// Nothing for a name that is refused. They are those that torch.load(weights_only=True) takes and
// checkpoints have.
std::optional<Global> find_global(std::string_view module, std::string_view name);

}  // namespace tandem::pickle
