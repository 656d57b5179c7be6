// Requests of a command computed by an engine of this process.
#pragma once

#include <memory>

#include "launcher/backend.h"
#include "runtime/engine/engine_api.h"

namespace tandem::launcher {

// The engine outlives it. One thread.
std::unique_ptr<Backend> make_engine_backend(EngineApi& engine);

}  // namespace tandem::launcher
