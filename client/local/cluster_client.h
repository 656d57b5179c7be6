// A client of a cluster in this process. No CAF in sight.
#pragma once

#include <string>

#include "actors/cluster.h"
#include "client/tandem_client.h"

namespace tandem::client {

// The client must be closed before the cluster is destroyed.
Client connect_to(actors::Cluster& cluster, const std::string& name);

}  // namespace tandem::client
