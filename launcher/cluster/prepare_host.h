// What a command does before it starts a cluster.
#pragma once

#include "launcher/cluster/cluster_options.h"

namespace tandem::launcher {

// Sweeps what killed runs of this user have left. Raises the limit of descriptors, and sees whether
// the threads and descriptors that the cluster will need can be had: WantOfResources if not.
// threads: the caller's own, besides.
void prepare_host(const ClusterOptions& options, const EngineConfig& engine, int threads);

}  // namespace tandem::launcher
