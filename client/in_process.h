// A client of an engine in the same process: the same interface without a network.
#pragma once

#include <caf/all.hpp>
#include <string>

#include "actors/network/messages.h"
#include "client/tandem_client.h"

namespace tandem::client {

// `system` outlives the client. Without the engine all requests fail at once. The client's
// functions that wait must not be called from an actor that shares the system's pool.
Client connect_in_process(caf::actor_system& system, const actors::EngineHandle& engine,
                          const std::string& name);

}  // namespace tandem::client
