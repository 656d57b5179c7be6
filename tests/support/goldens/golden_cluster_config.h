// Clusters for golden checkpoints.
#pragma once

#include <string>

#include "actors/cluster.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem::testing {

inline actors::ClusterConfig golden_cluster_config(const std::string& checkpoint) {
  actors::ClusterConfig config;
  config.engine = golden_config(checkpoint);
  config.engine.mutable_cache()->set_kv_cache_memory(size_t{32} << 20);
  config.engine.mutable_cache()->set_swap_space(size_t{8} << 20);
  return config;
}

}  // namespace tandem::testing
