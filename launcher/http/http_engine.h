// The HTTP server's engine: a client of a cluster in this process.
#pragma once

#include <memory>

#include "actors/cluster.h"
#include "server/api/engine_api.h"

namespace tandem::launcher {

// The cluster outlives it. Destroy it before the server: it ends all callbacks.
std::unique_ptr<server::EngineApi> make_http_engine(actors::Cluster& cluster);

}  // namespace tandem::launcher
