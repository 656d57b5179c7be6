// A client of the library for a cluster in this process.
#pragma once

#include <string>

#include "actors/cluster_impl.h"
#include "client/in_process.h"

namespace tandem::client {

// Close it before the cluster is destroyed.
inline Client connect_to(actors::Cluster& cluster, const std::string& name) {
  actors::Cluster::Impl& impl = cluster.impl();
  return connect_in_process(*impl.system, caf::actor_cast<actors::EngineHandle>(impl.engine), name);
}

}  // namespace tandem::client
