// Starts the actors of a cluster.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/local_messages.h"
#include "actors/shared.h"

namespace tandem::actors {

EngineActorHandle spawn_engine(caf::actor_system& system, std::shared_ptr<Shared> shared);
SchedulerHandle spawn_scheduler(caf::actor_system& system, std::shared_ptr<Shared> shared,
                                int replica, EngineActorHandle engine);
// The supervisor tells the scheduler of a fault's consequences; the fault itself comes from it.
SupervisorHandle spawn_supervisor(caf::actor_system& system, std::shared_ptr<Shared> shared,
                                  std::vector<SchedulerHandle> schedulers, EngineActorHandle engine,
                                  std::shared_ptr<GroupLauncher> launcher);
// Runs on a thread of its own. Says hello to the supervisor as this rank.
struct WorkerIdentity {
  int replica = 0;
  uint64_t generation = 0;
  int rank = 0;
  std::string crash_record;
  std::shared_ptr<std::atomic<bool>> again = {};  // set if it is stopped to join once more
};
WorkerHandle spawn_worker(caf::actor_system& system, ReportHandle supervisor,
                          WorkerIdentity identity, std::shared_ptr<Worker> worker);

}  // namespace tandem::actors
