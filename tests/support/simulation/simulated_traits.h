// What a simulated cluster is like, and what is asked of it.
#pragma once

#include <string>
#include <vector>

#include "runtime/engine/core/engine_core.h"
#include "runtime/engine/supervisor_core.h"
#include "runtime/request/request_processor.h"
#include "runtime/scheduling/scheduler.h"
#include "tests/support/simulation/simulation_counts.h"

namespace tandem::testing_support {

struct GroupTraits {
  int size = 1;  // of all stages (scheduler.stages) together, and scheduler.encoder_ranks
  double step_time = 0.005, load_time = 0.1;
  int num_device_blocks = 16, num_host_blocks = 0;  // of the rank with the fewest
  SchedulerConfig scheduler;                        // its pools are the supervisor's to say
  SimulationCounts* counts = nullptr;               // never null in a group; outlives it
};

struct ClusterTraits {
  EngineCoreConfig engine;
  SupervisorConfig supervisor;
  GroupTraits group;
  double step_timeout = 1;
  double launches_fail_until = 0;
  int max_steps_in_flight = 2;
};

// A request, and how it may end.
struct Plan {
  std::string id;
  PreparedRequest request;
  std::vector<proto::CompletionOutput> undisturbed;  // none if it is pooled
  double submit_at = 0, timeout = 0, cancel_at = 0;
  int steps_until_crash = 0;  // if it is poisonous
  bool poisonous = false, invalid = false, too_large = false;
  bool same_id = false;  // as an earlier request that was cancelled
};

}  // namespace tandem::testing_support
