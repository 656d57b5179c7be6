// What is behind Cluster, for those who live in the same actor system (in_process_engine.h).
#pragma once

#include "actors/network/system_config.h"
#include "actors/spawn.h"
#include "base/mutex.h"

namespace tandem::actors {

struct Cluster::Impl {
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  Credentials own;
  std::unique_ptr<SystemConfig> system_config;
  std::unique_ptr<caf::actor_system> system;
  EngineActorHandle engine;
  std::vector<SchedulerHandle> schedulers;
  SupervisorHandle supervisor;
  std::shared_ptr<GroupLauncher> launcher;
  uint16_t client_port = 0, cluster_port = 0;
  Mutex mutex;
  CertificateAuthority authority GUARDED_BY(mutex);
  bool stopped GUARDED_BY(mutex) = false;

  Credentials issue(const std::string& name) {
    const MutexLock lock(mutex);
    return authority.issue(name);
  }
};

}  // namespace tandem::actors
